/* KaTeX's build puts itself on `self`, which only browsers have by themselves. */

globalThis.self ??= globalThis;

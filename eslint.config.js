import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: [".venv/**", "build/**", "assets/vendor/**"] },
  js.configs.recommended,
  {
    languageOptions: { globals: globals.browser },
    rules: {
      eqeqeq: "error",
      "no-var": "error",
      "prefer-const": "error",
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: "Build elements; model text must never become HTML." },
        { property: "outerHTML", message: "Build elements; model text must never become HTML." },
        { property: "insertAdjacentHTML", message: "Build elements." },
      ],
      "max-lines": ["error", 420],
      "max-lines-per-function": ["error", 60],
      complexity: ["error", 12],
    },
  },
];

/* Prompts of the empty page: each makes another side of drafting visible in the first reply. */

const CODE = `def mean(values):
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


def variance(values):
    average = mean(values)
    total = 0.0
    for value in values:
        total += (value - average) ** 2
    return total / len(values)`;

const NOTE =
  `the meeting is moved to thursday at ten because the room is not free on wednesday. please
bring the figures of the last quarter and the list of open orders. if you can not come tell anna
before tuesday evening so that she can send you the minutes`.replaceAll("\n", " ");

/** shows: what to look at while the reply is written. */
export const FIRST_PROMPTS = [
  {
    title: "Copy code with a change",
    shows: "Most of the reply stands in the prompt already: whole lines are drafted.",
    text: `Rename \`values\` to \`samples\` everywhere and give back the whole code:\n\n\`\`\`python\n${CODE}\n\`\`\``,
  },
  {
    title: "Write a list",
    shows:
      "The items repeat a pattern: drafts are kept where it repeats, and end where it does not.",
    text: "List the numbers from 1 to 20, one a line, in the form “N squared is M”.",
  },
  {
    title: "Rewrite a note",
    shows: "Unchanged words are copied, and every change of yours shows as a correction.",
    text: `Correct capitals and punctuation of this note, change nothing else:\n\n${NOTE}`,
  },
];

// Rules for the JavaScript of the pages; types and names are tsc's.
export default [
  {
    rules: {
      "array-callback-return": "error",
      eqeqeq: "error",
      "no-constant-binary-expression": "error",
      "no-fallthrough": "error",
      "no-loss-of-precision": "error",
      "no-param-reassign": "error",
      "no-self-compare": "error",
      "no-shadow": "error",
      "no-unreachable": "error",
      "no-unused-vars": "error",
      "no-useless-assignment": "error",
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
    },
  },
];

/**
 * SentencePiece models (Kudo & Richardson 2018): text to pieces and back, of the types unigram, bpe, word and char.
 *
 * A model is read as SentencePiece writes it.
 */

const SPACE = "\u2581";
const UNKNOWN_SURFACE = " \u2047 ";
/** How much less likely than the least likely piece an unknown character is, in a unigram model. */
const UNKNOWN_PENALTY = 10;

/** Types of pieces, as numbered in a model. */
const TYPE = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 };
const MODELS = ["", "unigram", "bpe", "word", "char"];

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * The fields of a protocol buffer, in their order.
 *
 * @param {Uint8Array} bytes
 * @returns {Generator<[number, any]>} number and value of each: varints and floats as numbers, the others as bytes
 */
function* fields(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * scale;
      if (!(byte & 128)) return value;
    }
  };
  while (at < bytes.length) {
    const key = varint();
    const field = key >>> 3;
    const wire = key & 7;
    if (wire === 0) {
      yield [field, varint()];
    } else if (wire === 2) {
      const length = varint();
      yield [field, bytes.subarray(at, (at += length))];
    } else {
      yield [field, view.getFloat32((at += 4) - 4, true)];
    }
  }
}

/** The character at a place. @param {string} text @param {number} at */
const characterAt = (text, at) => String.fromCodePoint(/** @type {number} */ (text.codePointAt(at)));

/**
 * Rules that replace characters before a text is cut, such as those of Unicode's NFKC: a Darts double array.
 *
 * @param {Uint8Array} blob the size of the array, the array, and the replacements, each ended by a zero
 * @returns {(text: string, from: number) => {part: string, end: number} | undefined} the longest rule at a place of a
 *   text: what takes the place of the characters, and where they end
 */
function characterRules(blob) {
  const view = new DataView(blob.buffer, blob.byteOffset, blob.byteLength);
  const size = view.getUint32(0, true);
  const units = Uint32Array.from({ length: size / 4 }, (_, i) => view.getUint32(4 + 4 * i, true));
  const replacements = blob.subarray(4 + size);
  const offset = (/** @type {number} */ unit) => (unit >>> 10) << ((unit & 512) >>> 6);
  return (text, from) => {
    let found;
    let node = offset(units[0]);
    for (let end = from; end < text.length;) {
      const character = characterAt(text, end);
      end += character.length;
      let unit = 0;
      for (const byte of encoder.encode(character)) {
        node ^= byte;
        unit = units[node];
        if (unit === undefined || (unit & 0x800000ff) >>> 0 !== byte) return found;
        node ^= offset(unit);
      }
      if (!((unit >>> 8) & 1)) continue; // no rule ends here
      const start = units[node] & 0x7fffffff;
      found = { part: decoder.decode(replacements.subarray(start, replacements.indexOf(0, start))), end };
    }
    return found;
  };
}

/** A SentencePiece model. */
export class Tokenizer {
  /** @param {Uint8Array} model the content of a `.model` file */
  constructor(model) {
    const content = [...fields(model)];
    const messages = (/** @type {number} */ number) =>
      content.filter(([field]) => field === number).map(([, value]) => Object.fromEntries(fields(value)));
    const entries = messages(1);
    this.pieces = entries.map(({ 1: piece }) => decoder.decode(piece));
    this.scores = entries.map(({ 2: score = 0 }) => Number(score));
    this.types = entries.map(({ 3: type = TYPE.normal }) => Number(type));
    const [{ 3: kind = 1, 24: suffixes } = {}] = messages(2); // of the trainer
    this.kind = MODELS[kind];
    const [{ 2: map, 3: prefix = 1, 4: removes = 1, 5: escapes = 1 } = {}] = messages(3); // of the normalizer
    this.rule = map?.length ? characterRules(map) : undefined;
    this.addsPrefix = Boolean(prefix);
    this.removesExtraSpaces = Boolean(removes);
    this.space = escapes ? SPACE : " ";
    if (suffixes) throw new Error("the tokenizer treats spaces as suffixes, which this engine does not");
    if (this.types.includes(TYPE.byte))
      throw new Error("the tokenizer falls back to bytes, which this engine does not");
    const special = (/** @type {string} */ name) =>
      this.pieces.findIndex((piece, i) => piece === name && this.types[i] !== TYPE.normal);
    this.unknown = this.types.indexOf(TYPE.unknown);
    this.bos = special("<s>");
    this.eos = special("</s>");
    this.pad = special("<pad>");
    const ofType = (/** @type {number[]} */ ...types) =>
      [...this.pieces.keys()].filter((id) => types.includes(this.types[id]));
    /** Pieces of text by their spelling. */
    this.ids = new Map(ofType(TYPE.normal, TYPE.userDefined, TYPE.unused).map((id) => [this.pieces[id], id]));
    /** Pieces that are never cut, longest first. */
    this.userDefined = ofType(TYPE.userDefined).map((id) => this.pieces[id]);
    this.userDefined.sort((a, b) => b.length - a.length);
    this.longest = this.pieces.reduce((most, { length }) => Math.max(most, length), 0);
    const normal = ofType(TYPE.normal).map((id) => this.scores[id]);
    this.least = normal.reduce((a, b) => Math.min(a, b), Infinity);
    this.most = normal.reduce((a, b) => Math.max(a, b), -Infinity);
  }

  /** Ids of a text, without the special pieces; a blank text has none. @param {string} text */
  encode(text) {
    const normalized = this.#normalized(text);
    const ids = this.kind === "unigram" ? this.#unigram(normalized) : this.#others(normalized);
    return ids.filter((id, i) => id !== this.unknown || ids[i - 1] !== this.unknown); // a run of them is one
  }

  /** The text of ids; special pieces have none. @param {number[]} ids */
  decode(ids) {
    const spelled = ids.map((id) => {
      if (this.types[id] === TYPE.control) return "";
      return id === this.unknown ? UNKNOWN_SURFACE : this.pieces[id].replaceAll(SPACE, " ");
    });
    return spelled.join("").replace(/^ +| +$/g, "");
  }

  /** The text that is cut into pieces. @param {string} text */
  #normalized(text) {
    const whole = text.toWellFormed(); // half of a surrogate pair becomes U+FFFD
    const parts = [" "]; // of which only the last one is looked at: that of a growing text would be copied each time
    for (let at = 0; at < whole.length;) {
      const own = this.#userDefinedAt(whole, at);
      const rule = own ? undefined : this.rule?.(whole, at);
      const part = rule?.part ?? own ?? characterAt(whole, at);
      at = rule?.end ?? at + part.length;
      const afterSpace = parts[parts.length - 1].endsWith(" ");
      const kept = this.removesExtraSpaces && afterSpace ? part.replace(/^ +/, "") : part;
      if (kept) parts.push(kept);
    }
    const output = parts.slice(1).join("");
    const escaped = (whole && this.addsPrefix ? ` ${output}` : output).replaceAll(" ", this.space);
    return this.removesExtraSpaces ? escaped.replace(new RegExp(`${this.space}+$`), "") : escaped;
  }

  /** The longest piece at a place that is never cut. @param {string} text @param {number} at */
  #userDefinedAt(text, at) {
    return this.userDefined.find((piece) => text.startsWith(piece, at));
  }

  /** The likeliest segmentation (Kudo 2018, section 3.2), in single precision as SentencePiece. @param {string} text */
  #unigram(text) {
    const { fround } = Math;
    const unknownScore = fround(this.least - UNKNOWN_PENALTY);
    const score = (/** @type {number} */ id) => {
      if (this.types[id] !== TYPE.userDefined) return this.scores[id];
      return fround(encoder.encode(this.pieces[id]).length * this.most - 0.1);
    };
    /** The best path to each place. @type {{score: number, from: number, id: number}[]} */
    const best = [{ score: 0, from: -1, id: -1 }];
    for (let from = 0; from < text.length;) {
      const character = from + characterAt(text, from).length;
      const offer = (/** @type {number} */ end, /** @type {number} */ id, /** @type {number} */ own) => {
        const total = fround(own + best[from].score);
        if (!best[end] || total > best[end].score) best[end] = { score: total, from, id };
      };
      let known = false;
      for (let end = character; end <= Math.min(text.length, from + this.longest); end += 1) {
        const id = this.ids.get(text.slice(from, end));
        if (id === undefined || this.types[id] === TYPE.unused) continue;
        offer(end, id, score(id));
        known ||= end === character;
      }
      if (!known) offer(character, this.unknown, unknownScore);
      from = character;
    }
    const ids = [];
    for (let end = text.length; end > 0; end = best[end].from) ids.push(best[end].id);
    return ids.reverse();
  }

  /** Words, characters, or characters that are merged by score (Sennrich et al. 2016). @param {string} text */
  #others(text) {
    const id = (/** @type {string} */ piece) => this.ids.get(piece) ?? this.unknown;
    if (this.kind === "word") return text ? text.split(new RegExp(`(?=${SPACE})`)).map(id) : [];
    /** @type {Part[]} */
    const parts = [];
    for (let at = 0; at < text.length;) {
      const own = this.#userDefinedAt(text, at);
      const piece = own ?? characterAt(text, at);
      parts.push({ at, piece, frozen: Boolean(own), before: parts[parts.length - 1] });
      at += piece.length;
    }
    parts.forEach((part, k) => (part.after = parts[k + 1]));
    if (this.kind === "bpe") this.#merge(parts);
    return parts.filter(({ piece }) => piece).map(({ piece }) => id(piece));
  }

  /** Merge neighbors, highest score first, leftmost of equals; the right one becomes empty. @param {Part[]} parts */
  #merge(parts) {
    /** @type {Heap} */
    let heap;
    const offer = (/** @type {Part | undefined} */ left) => {
      if (!left?.after || left.frozen || left.after.frozen) return;
      const piece = left.piece + left.after.piece;
      const id = this.ids.get(piece);
      if (id !== undefined) heap = melded(heap, { left, piece, score: this.scores[id], depth: 1 });
    };
    parts.forEach(offer);
    while (heap) {
      const { left, piece, longer, shorter } = heap;
      heap = melded(longer, shorter);
      const { after: right } = left;
      if (!left.piece || !right || left.piece + right.piece !== piece) continue; // one of them has merged since
      left.piece = piece;
      right.piece = "";
      left.after = right.after;
      if (right.after) right.after.before = left;
      offer(left.before);
      offer(left);
    }
  }
}

/**
 * @typedef {{at: number, piece: string, frozen: boolean, before?: Part, after?: Part}} Part of a text; at: its place
 * @typedef {{left: Part, piece: string, score: number, depth: number, longer?: Heap, shorter?: Heap}} Pair two neighbors, in
 *   a leftist heap (Crane 1972); depth: the length of the shortest way down
 * @typedef {Pair | undefined} Heap
 */

/** Two heaps as one. @param {Heap} a @param {Heap} b @returns {Heap} */
function melded(a, b) {
  if (!a || !b) return a ?? b;
  if (b.score > a.score || (b.score === a.score && b.left.at < a.left.at)) return melded(b, a);
  const rest = melded(a.shorter, b);
  [a.longer, a.shorter] = (a.longer?.depth ?? 0) < (rest?.depth ?? 0) ? [rest, a.longer] : [a.longer, rest];
  a.depth = 1 + (a.shorter?.depth ?? 0);
  return a;
}

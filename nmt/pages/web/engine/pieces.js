/**
 * SentencePiece models (Kudo & Richardson 2018): text to pieces and back, of the types unigram, bpe, word and char.
 *
 * A model is read as SentencePiece writes it. Texts are handled as UTF-8 bytes, as SentencePiece does.
 */

const SPACE = "\u2581";
const UNKNOWN_SURFACE = " \u2047 ";
/** How much less likely than the least likely piece an unknown character is, in a unigram model. */
const UNKNOWN_PENALTY = 10;

/** Types of pieces, as numbered in a model. */
const TYPE = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 };
const MODELS = /** @type {const} */ ({ 1: "unigram", 2: "bpe", 3: "word", 4: "char" });

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * The fields of a protocol buffer, in their order.
 *
 * @param {Uint8Array} bytes
 * @returns {Generator<{field: number, value: number | Uint8Array}>} numbers of varints and floats, bytes of the others
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
      yield { field, value: varint() };
    } else if (wire === 2) {
      const length = varint();
      yield { field, value: bytes.subarray(at, (at += length)) };
    } else if (wire === 5) {
      yield { field, value: view.getFloat32((at += 4) - 4, true) };
    } else if (wire === 1) {
      at += 8;
    } else {
      throw new Error("not a SentencePiece model, or a damaged one");
    }
  }
}

/** The bytes of the UTF-8 character that begins with this byte. @param {number} byte */
const characterLength = (byte) => (byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4);

/** A set of byte strings with a number each, to find those that begin at a place. */
class Trie {
  constructor() {
    /** @type {{next: Map<number, any>, value: number}} */
    this.root = { next: new Map(), value: -1 };
  }

  /** @param {Uint8Array} key @param {number} value */
  add(key, value) {
    let node = this.root;
    for (const byte of key) {
      let next = node.next.get(byte);
      if (!next) node.next.set(byte, (next = { next: new Map(), value: -1 }));
      node = next;
    }
    node.value = value;
  }

  /**
   * The keys that begin at a place, shortest first.
   *
   * @param {Uint8Array} text
   * @param {number} from
   * @returns {Generator<{value: number, end: number}>}
   */
  *at(text, from) {
    let node = this.root;
    for (let end = from; end < text.length;) {
      node = node.next.get(text[end++]);
      if (!node) return;
      if (node.value >= 0) yield { value: node.value, end };
    }
  }
}

/** Rules that replace characters before a text is cut, such as those of Unicode's NFKC: a Darts double array. */
class CharacterMap {
  /** @param {Uint8Array} blob the size of the array, the array, and the replacements, each ended by a zero */
  constructor(blob) {
    const view = new DataView(blob.buffer, blob.byteOffset, blob.byteLength);
    const size = view.getUint32(0, true);
    this.units = Uint32Array.from({ length: size / 4 }, (_, i) => view.getUint32(4 + 4 * i, true));
    this.replacements = blob.subarray(4 + size);
  }

  /**
   * The longest rule at a place of a text.
   *
   * @param {Uint8Array} text
   * @param {number} from
   * @returns {{replacement: Uint8Array, end: number} | null}
   */
  at(text, from) {
    const { units } = this;
    const offset = (/** @type {number} */ unit) => (unit >>> 10) << ((unit & 512) >>> 6);
    let found = null;
    let node = offset(units[0]);
    for (let end = from; end < text.length;) {
      node ^= text[end];
      const unit = units[node];
      if (unit === undefined || (unit & 0x800000ff) >>> 0 !== text[end]) break;
      end += 1;
      node ^= offset(unit);
      if ((unit >>> 8) & 1) found = { value: units[node] & 0x7fffffff, end };
    }
    if (!found) return null;
    const stop = this.replacements.indexOf(0, found.value);
    return { replacement: this.replacements.subarray(found.value, stop), end: found.end };
  }
}

/** A SentencePiece model. */
export class Tokenizer {
  /** @param {Uint8Array} model the content of a `.model` file */
  constructor(model) {
    /** @type {string[]} */
    this.pieces = [];
    /** @type {number[]} */
    this.scores = [];
    /** @type {number[]} */
    this.types = [];
    /** @type {"unigram" | "bpe" | "word" | "char"} */
    this.kind = "unigram";
    this.addsPrefix = true;
    this.removesExtraSpaces = true;
    this.escapesSpaces = true;
    /** @type {CharacterMap | null} */
    this.map = null;
    for (const { field, value } of fields(model)) {
      if (field === 1) this.#readPiece(/** @type {Uint8Array} */ (value));
      if (field === 2) this.#readTrainer(/** @type {Uint8Array} */ (value));
      if (field === 3) this.#readNormalizer(/** @type {Uint8Array} */ (value));
    }
    if (this.types.includes(TYPE.byte))
      throw new Error("the tokenizer falls back to bytes, which this engine does not");
    const special = (/** @type {string} */ name) =>
      this.pieces.findIndex((piece, i) => piece === name && this.types[i] !== TYPE.normal);
    this.unknown = this.types.indexOf(TYPE.unknown);
    this.bos = special("<s>");
    this.eos = special("</s>");
    this.pad = special("<pad>");
    /** Pieces of text by their spelling. @type {Map<string, number>} */
    this.ids = new Map();
    this.trie = new Trie();
    this.userDefined = new Trie();
    this.pieces.forEach((piece, id) => {
      const type = this.types[id];
      if (type !== TYPE.normal && type !== TYPE.userDefined && type !== TYPE.unused) return;
      this.ids.set(piece, id);
      if (type !== TYPE.unused) this.trie.add(encoder.encode(piece), id);
      if (type === TYPE.userDefined) this.userDefined.add(encoder.encode(piece), id);
    });
    const normal = this.scores.filter((_, id) => this.types[id] === TYPE.normal);
    this.least = normal.reduce((a, b) => Math.min(a, b), Infinity);
    this.most = normal.reduce((a, b) => Math.max(a, b), -Infinity);
  }

  /** @param {Uint8Array} bytes */
  #readPiece(bytes) {
    let type = TYPE.normal;
    let score = 0;
    let piece = "";
    for (const { field, value } of fields(bytes)) {
      if (field === 1) piece = decoder.decode(/** @type {Uint8Array} */ (value));
      if (field === 2) score = /** @type {number} */ (value);
      if (field === 3) type = /** @type {number} */ (value);
    }
    this.pieces.push(piece);
    this.scores.push(score);
    this.types.push(type);
  }

  /** @param {Uint8Array} bytes */
  #readTrainer(bytes) {
    for (const { field, value } of fields(bytes)) {
      if (field === 3) this.kind = MODELS[/** @type {1 | 2 | 3 | 4} */ (value)];
      if (field === 24 && value) throw new Error("the tokenizer treats spaces as suffixes, which this engine does not");
    }
  }

  /** @param {Uint8Array} bytes */
  #readNormalizer(bytes) {
    for (const { field, value } of fields(bytes)) {
      const blob = /** @type {Uint8Array} */ (value);
      if (field === 2 && blob.length) this.map = new CharacterMap(blob);
      if (field === 3) this.addsPrefix = Boolean(value);
      if (field === 4) this.removesExtraSpaces = Boolean(value);
      if (field === 5) this.escapesSpaces = Boolean(value);
    }
  }

  /**
   * Ids of a text, without the special pieces; a blank text has none.
   *
   * @param {string} text
   * @returns {number[]}
   */
  encode(text) {
    const normalized = this.normalize(text);
    if (!normalized.length) return [];
    const ids = this.kind === "unigram" ? this.#unigram(normalized) : this.#others(normalized);
    return ids.filter((id, i) => id !== this.unknown || ids[i - 1] !== this.unknown); // a run of them is one
  }

  /**
   * The text of ids; special pieces have none.
   *
   * @param {number[]} ids
   * @returns {string}
   */
  decode(ids) {
    const spelled = ids.map((id) => {
      if (this.types[id] === TYPE.control) return "";
      return id === this.unknown ? UNKNOWN_SURFACE : this.pieces[id].replaceAll(SPACE, " ");
    });
    return spelled.join("").replace(/^ +| +$/g, "");
  }

  /**
   * The text that is cut into pieces.
   *
   * @param {string} text
   * @returns {Uint8Array}
   */
  normalize(text) {
    const input = encoder.encode(text);
    const space = this.escapesSpaces ? encoder.encode(SPACE) : Uint8Array.of(32);
    /** @type {number[]} */
    const output = [];
    let at = 0;
    const next = () => {
      for (const { end } of [...this.userDefined.at(input, at)].reverse())
        return { part: input.subarray(at, end), end };
      const rule = this.map?.at(input, at);
      if (rule) return { part: rule.replacement, end: rule.end };
      const end = Math.min(input.length, at + characterLength(input[at]));
      return { part: input.subarray(at, end), end };
    };
    if (this.removesExtraSpaces) {
      while (at < input.length) {
        const { part, end } = next();
        if (part.length !== 1 || part[0] !== 32) break;
        at = end;
      }
    }
    if (at === input.length) return new Uint8Array();
    if (this.addsPrefix) output.push(...space);
    let afterSpace = this.removesExtraSpaces;
    while (at < input.length) {
      const { part, end } = next();
      at = end;
      let from = 0;
      while (afterSpace && part[from] === 32) from += 1;
      for (const byte of part.subarray(from)) {
        if (byte === 32) output.push(...space);
        else output.push(byte);
      }
      if (from < part.length) afterSpace = part[part.length - 1] === 32;
      afterSpace &&= this.removesExtraSpaces;
    }
    if (this.removesExtraSpaces) {
      const endsInSpace = () => space.every((byte, i) => output[output.length - space.length + i] === byte);
      while (output.length && endsInSpace()) output.length -= space.length;
    }
    return Uint8Array.from(output);
  }

  /**
   * The likeliest segmentation (Kudo 2018, section 3.2), in single precision as SentencePiece.
   *
   * @param {Uint8Array} text
   * @returns {number[]}
   */
  #unigram(text) {
    const { fround } = Math;
    const unknownScore = fround(this.least - UNKNOWN_PENALTY);
    /** The best path to each place. @type {({score: number, from: number, id: number} | undefined)[]} */
    const best = [{ score: 0, from: -1, id: -1 }];
    for (let from = 0; from < text.length;) {
      const { score: before } = /** @type {{score: number}} */ (best[from]);
      const character = Math.min(text.length, from + characterLength(text[from]));
      let known = false;
      const offer = (/** @type {number} */ end, /** @type {number} */ id, /** @type {number} */ score) => {
        const total = fround(score + before);
        const old = best[end];
        if (!old || total > old.score) best[end] = { score: total, from, id };
      };
      for (const { value: id, end } of this.trie.at(text, from)) {
        const own = this.types[id] === TYPE.userDefined;
        offer(end, id, own ? fround((end - from) * this.most - 0.1) : this.scores[id]);
        known ||= end === character;
      }
      if (!known) offer(character, this.unknown, unknownScore);
      from = character;
    }
    const ids = [];
    for (let end = text.length; end > 0;) {
      const { id, from } = /** @type {{id: number, from: number}} */ (best[end]);
      ids.push(id);
      end = from;
    }
    return ids.reverse();
  }

  /**
   * The other types: words, characters, and characters that are merged by score (Sennrich et al. 2016).
   *
   * @param {Uint8Array} text
   * @returns {number[]}
   */
  #others(text) {
    const id = (/** @type {string} */ piece) => this.ids.get(piece) ?? this.unknown;
    if (this.kind === "word") {
      const words = decoder.decode(text).split(SPACE);
      return words.flatMap((word, i) => (i ? [id(SPACE + word)] : word ? [id(word)] : []));
    }
    /**
     * `merged` is the score of the piece that a symbol would make with the next one.
     *
     * @type {{piece: string, frozen: boolean, merged: number}[]}
     */
    const symbols = [];
    for (let at = 0; at < text.length;) {
      const longest = [...this.userDefined.at(text, at)].at(-1);
      const end = longest?.end ?? Math.min(text.length, at + characterLength(text[at]));
      symbols.push({ piece: decoder.decode(text.subarray(at, end)), frozen: Boolean(longest), merged: -Infinity });
      at = end;
    }
    const look = (/** @type {number} */ i) => {
      if (i < 0) return;
      const [left, right] = [symbols[i], symbols[i + 1]];
      const merges = right && !left.frozen && !right.frozen;
      left.merged = merges ? (this.scores[this.ids.get(left.piece + right.piece) ?? -1] ?? -Infinity) : -Infinity;
    };
    if (this.kind === "bpe") symbols.forEach((_, i) => look(i));
    for (;;) {
      const highest = symbols.reduce((most, { merged }) => Math.max(most, merged), -Infinity);
      if (highest === -Infinity) break;
      const place = symbols.findIndex(({ merged }) => merged === highest);
      symbols[place].piece += symbols[place + 1].piece;
      symbols.splice(place + 1, 1);
      look(place - 1);
      look(place);
    }
    return symbols.map(({ piece }) => id(piece));
  }
}

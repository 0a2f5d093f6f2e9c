/** Weights from a safetensors file, and the layers that are made of them. All numbers are held as fp32. */

/**
 * @typedef {{data: Float32Array, shape: number[]}} Tensor a matrix has its rows one after another
 * @typedef {Map<string, Tensor>} Tensors
 */

/** Bytes of a number, by its type in the file. @type {Record<string, number>} */
const WIDTH = { F32: 4, F16: 2, I8: 1 };
const SCALE = ".scale";

/**
 * Read a safetensors file of fp32, fp16, and int8 by rows: NAME, and NAME.scale with the factor of each row.
 *
 * @param {ArrayBuffer} file
 * @returns {Tensors}
 */
export function readSafetensors(file) {
  const view = new DataView(file);
  const size = Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, size)));
  delete header.__metadata__;
  /** @type {Tensors} */
  const tensors = new Map();
  for (const [
    name,
    {
      dtype,
      shape,
      data_offsets: [begin, end],
    },
  ] of Object.entries(header)) {
    if (!(dtype in WIDTH)) throw new Error(`the weights ${name} are of type ${dtype}; use F32, F16 or I8`);
    const numbers = new Float32Array((end - begin) / WIDTH[dtype]);
    for (let i = 0, at = 8 + size + begin; i < numbers.length; i += 1, at += WIDTH[dtype]) {
      if (dtype === "F32") numbers[i] = view.getFloat32(at, true);
      else numbers[i] = dtype === "I8" ? view.getInt8(at) : half(view.getUint16(at, true));
    }
    tensors.set(name, { data: numbers, shape });
  }
  for (const [name, { data, shape }] of tensors) {
    const scale = tensors.get(name + SCALE);
    if (!scale) continue;
    const columns = data.length / shape[0];
    data.forEach((number, i) => (data[i] = number * scale.data[Math.floor(i / columns)]));
    tensors.delete(name + SCALE);
  }
  return tensors;
}

/** A number of 16 bits. @param {number} bits */
function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >>> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent ? sign * 2 ** (exponent - 15) * (1 + fraction / 1024) : sign * 2 ** -14 * (fraction / 1024);
}

/** y = W x + b. */
export class Linear {
  /** @param {Tensor} weight (O, I) @param {Float32Array} [bias] (O,) */
  constructor(weight, bias) {
    this.outputs = weight.shape[0];
    this.inputs = weight.shape[1];
    this.weight = weight.data;
    this.bias = bias;
  }

  /**
   * Four rows at a time: each number of x is read once for them.
   *
   * @param {Float32Array} x (I,)
   * @returns {Float32Array} (O,)
   */
  apply(x) {
    const { weight, inputs, outputs } = this;
    const y = this.bias ? Float32Array.from(this.bias) : new Float32Array(outputs);
    let row = 0;
    for (; row + 3 < outputs; row += 4) {
      const p = row * inputs;
      const q = p + inputs;
      const r = q + inputs;
      const s = r + inputs;
      let a = 0;
      let b = 0;
      let c = 0;
      let d = 0;
      for (let i = 0; i < inputs; i += 1) {
        const unit = x[i];
        a += weight[p + i] * unit;
        b += weight[q + i] * unit;
        c += weight[r + i] * unit;
        d += weight[s + i] * unit;
      }
      y[row] += a;
      y[row + 1] += b;
      y[row + 2] += c;
      y[row + 3] += d;
    }
    for (; row < outputs; row += 1) y[row] += dot(x, weight.subarray(row * inputs, (row + 1) * inputs));
    return y;
  }
}

/** The tensors whose names begin with a prefix. */
export class Part {
  /** @param {Tensors} tensors @param {string} prefix "" or ending in "." */
  constructor(tensors, prefix = "") {
    this.tensors = tensors;
    this.prefix = prefix;
  }

  /** @param {string} name @returns {Part} */
  part(name) {
    return new Part(this.tensors, `${this.prefix}${name}.`);
  }

  /** @param {string} name @returns {boolean} whether there is such a layer */
  has(name) {
    return this.tensors.has(`${this.prefix}${name}.weight`);
  }

  /** @param {string} name @returns {Tensor} */
  tensor(name) {
    const found = this.tensors.get(this.prefix + name);
    if (!found) throw new Error(`the weights lack ${this.prefix}${name}`);
    return found;
  }

  /** @param {string} name @returns {Linear} */
  linear(name) {
    const bias = this.tensors.get(`${this.prefix}${name}.bias`);
    return new Linear(this.tensor(`${name}.weight`), bias?.data);
  }

  /** @param {string} name @returns {Linear | undefined} */
  linearIfAny(name) {
    return this.has(name) ? this.linear(name) : undefined;
  }
}

// --- vectors ---------------------------------------------------------------------------------------------------------

/** @param {...Float32Array} parts @returns {Float32Array} one vector of all */
export function joined(...parts) {
  const all = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** @param {Float32Array} a @param {...(Float32Array | undefined)} others @returns {Float32Array} their sum */
export function added(a, ...others) {
  const sum = Float32Array.from(a);
  for (const other of others) if (other) for (let i = 0; i < sum.length; i += 1) sum[i] += other[i];
  return sum;
}

/** @param {Float32Array} a @param {Float32Array} b @returns {number} */
export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) sum += a[i] * b[i];
  return sum;
}

/** @param {number} x @returns {number} */
export const sigmoid = (x) => 1 / (1 + Math.exp(-x));

/** @param {Float32Array} energies some of them may be minus infinity @returns {Float32Array} */
export function softmax(energies) {
  const most = energies.reduce((a, b) => Math.max(a, b), -Infinity);
  const weights = energies.map((energy) => Math.exp(energy - most));
  const total = weights.reduce((a, b) => a + b, 0);
  return weights.map((weight) => weight / total);
}

/** @param {Float32Array} logits @returns {Float32Array} */
export function logSoftmax(logits) {
  const most = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  let total = 0;
  for (const logit of logits) total += Math.exp(logit - most);
  const norm = most + Math.log(total);
  return logits.map((logit) => logit - norm);
}

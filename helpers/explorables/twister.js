// The Mersenne Twister, by which Python's random, NumPy and torch's CPU generator draw.

class Twister {
  constructor(key, at = 624) {
    this.key = key;
    this.at = at;
  }

  copy() {
    return new Twister(this.key.slice(), this.at);
  }

  /** Return the next 32 bits. */
  next() {
    const { key } = this;
    if (this.at === 624) {
      for (let k = 0; k < 624; k += 1) {
        const bits = (key[k] & 0x80000000) | (key[(k + 1) % 624] & 0x7fffffff);
        key[k] = key[(k + 397) % 624] ^ (bits >>> 1) ^ (bits & 1 ? 0x9908b0df : 0);
      }
      this.at = 0;
    }
    let y = key[this.at];
    this.at += 1;
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  }
}

/** Return a generator seeded as np.random.seed and torch.manual_seed do it, by 32 bits. */
function seedByNumber(seed) {
  const key = new Uint32Array(624);
  key[0] = seed;
  for (let k = 1; k < 624; k += 1) {
    key[k] = Math.imul(1812433253, key[k - 1] ^ (key[k - 1] >>> 30)) + k;
  }
  return new Twister(key);
}

/** Return a generator seeded as random.seed does it, by the words of 32 bits of an integer. */
function seedByWords(words) {
  const { key } = seedByNumber(19650218);
  let i = 1;
  const mixed = (factor) => key[i] ^ Math.imul(key[i - 1] ^ (key[i - 1] >>> 30), factor);
  const step = () => {
    i += 1;
    if (i === 624) {
      key[0] = key[623];
      i = 1;
    }
  };
  for (let k = 0; k < Math.max(624, words.length); k += 1) {
    const j = k % words.length;
    key[i] = mixed(1664525) + words[j] + j;
    step();
  }
  for (let k = 0; k < 623; k += 1) {
    key[i] = mixed(1566083941) - i;
    step();
  }
  key[0] = 0x80000000;
  return new Twister(key);
}

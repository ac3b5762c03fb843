package interop

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	there = tcpFlow{[4]byte{10, 0, 2, 15}, [4]byte{10, 0, 2, 2}, 1023, 20049}
	back  = there.reversed()
)

// mpaFrame is a Request or Reply with n bytes of private data.
func mpaFrame(n int) []byte {
	b := append([]byte("MPA ID Req Frame\x10\x02"), byte(n>>8), byte(n))
	return append(b, bytes.Repeat([]byte{0xdd}, n)...)
}

// makeFPDU is an FPDU with n bytes of ULPDU.
func makeFPDU(n int) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(n))
	b = append(b, bytes.Repeat([]byte{0xee}, n)...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return append(b, 0xc, 0xc, 0xc, 0xc)
}

// capturePiece is one segment of a capture.
type capturePiece struct {
	flow  tcpFlow
	at    int // offset in its stream, -1 for a SYN
	bytes []byte
}

// writeCapture writes a capture of these segments.
func writeCapture(t *testing.T, pieces ...capturePiece) *bytes.Buffer {
	var b bytes.Buffer
	w, err := newCaptureWriter(&b)
	require.NoError(t, err)
	for _, p := range pieces {
		w.seq[p.flow] = 0xfffffff0 + uint32(p.at) // wraps soon
		from := b.Len()
		require.NoError(t, w.writeSegment([8]byte{1}, p.flow, p.bytes))
		if p.at < 0 {
			b.Bytes()[from+pcapRecord+ethernetLen+ipv4Len+13] |= flagSYN
		}
	}
	return &b
}

// readPayloads returns the payloads of a capture, in its order.
func readPayloads(t *testing.T, b *bytes.Buffer) [][]byte {
	var all [][]byte
	require.NoError(t, readCapture(b, func(s tcpSegment) error {
		all = append(all, slices.Clone(s.payload))
		return nil
	}))
	return all
}

func TestResegment(t *testing.T) {
	units := [][]byte{mpaFrame(12), makeFPDU(0), makeFPDU(18), makeFPDU(1450), makeFPDU(65535), makeFPDU(3)}
	whole := bytes.Join(units, nil)
	answer := mpaFrame(0)
	cut := []int{0, 10, 50, 60, 61, 1000, 40000, len(whole) - 1, len(whole)}
	segments := []capturePiece{{there, -1, nil}, {back, -1, nil}}
	for i := range len(cut) - 1 {
		segments = append(segments, capturePiece{there, cut[i], whole[cut[i]:cut[i+1]]})
	}
	segments = append(segments, capturePiece{back, 0, answer}, capturePiece{there, len(whole) + 1, nil})
	want := append(slices.Clone(units), answer)

	for name, change := range map[string]func(s []capturePiece) []capturePiece{
		"in order":  func(s []capturePiece) []capturePiece { return s },
		"repeated":  func(s []capturePiece) []capturePiece { return slices.Insert(s, 6, s[3], s[5]) },
		"exchanged": func(s []capturePiece) []capturePiece { s[4], s[5], s[6] = s[6], s[4], s[5]; return s },
		"overlapping": func(s []capturePiece) []capturePiece {
			return slices.Insert(s, 5, capturePiece{there, 20, whole[20:700]})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			n, err := resegment(&out, writeCapture(t, change(slices.Clone(segments))...))
			require.NoError(t, err)
			assert.Equal(t, Units{Frames: 2, FPDUs: 5}, n)
			assert.Equal(t, want, readPayloads(t, &out))
		})
	}
	t.Run("with a hole", func(t *testing.T) {
		_, err := resegment(new(bytes.Buffer), writeCapture(t, slices.Delete(slices.Clone(segments), 5, 6)...))
		assert.ErrorContains(t, err, "behind a hole")
	})
	t.Run("cut short", func(t *testing.T) {
		b := writeCapture(t, segments...)
		b.Truncate(b.Len() - 1)
		_, err := resegment(new(bytes.Buffer), b)
		assert.ErrorIs(t, err, errCapture)
	})
	t.Run("no capture", func(t *testing.T) {
		_, err := resegment(new(bytes.Buffer), bytes.NewReader(make([]byte, 24)))
		assert.ErrorIs(t, err, errCapture)
	})
}

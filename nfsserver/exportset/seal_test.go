package exportset

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestMAC checks the examples in NIST SP 800-38B, Appendix D.3 (AES-256).
func TestMAC(t *testing.T) {
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		require.NoError(t, err)
		return b
	}
	s := newSealer([32]byte(unhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")))
	msg := unhex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51" +
		"30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710")
	for n, want := range map[int]string{
		0:  "028962f61b7bf89efc6b551f4667d983",
		16: "28a7023f452e8f82bd4bf28d8c37c35c",
		40: "aaf3d8f1de5640c232f5b169b9c911e6",
		64: "e1992190549f6ed5696a2c056c315410",
	} {
		var m macBuffer
		s.computeMAC(&m, msg[:n])
		assert.Equal(t, want, hex.EncodeToString(m[:]), "%d bytes", n)
	}
}

// TestSealedHandle checks that a handle is always the same, that no byte in it may change, and
// that its bytes are those in doc.go.
func TestSealedHandle(t *testing.T) {
	s := newSealer(testKey)
	for _, n := range []int{0, 1, 11, 12, 26, 27, 28, vfs.MaxHandle} {
		inner := testPattern(n)
		h, ok := vfs.NewHandle(inner)
		require.True(t, ok)
		fh := s.appendHandle(new(macBuffer), nil, 0x01020304, &h)
		assert.Equal(t, append([]byte{2, 1, 2, 3, 4}, inner...), []byte(fh[:5+n]))
		assert.Len(t, fh, 5+n+9)
		assert.LessOrEqual(t, len(fh), MaxHandle)
		assert.Equal(t, fh, newSealer(testKey).appendHandle(new(macBuffer), nil, 0x01020304, &h))
		export, back, err := s.parseHandle(new(macBuffer), fh)
		assert.NoError(t, err)
		assert.EqualValues(t, 0x01020304, export)
		assert.Equal(t, h, back)
		for i := range fh {
			fh[i] ^= 0x40
			_, back, err := s.parseHandle(new(macBuffer), fh)
			fh[i] ^= 0x40
			want := Stale
			if i == 0 {
				want = BadHandle
			}
			assert.Equal(t, want, err, "byte %d of %d", i, len(fh))
			assert.Zero(t, back)
		}
	}
}

// TestRandomKey checks that without a key, another server's handles are
// refused.
func TestRandomKey(t *testing.T) {
	var h vfs.Handle
	fh := newSealer([32]byte{}).appendHandle(new(macBuffer), nil, 1, &h)
	for _, key := range [][32]byte{{}, testKey} {
		_, _, err := newSealer(key).parseHandle(new(macBuffer), fh)
		assert.Equal(t, Stale, err)
	}
}

func BenchmarkSeal(b *testing.B) {
	s, m := newSealer(testKey), new(macBuffer)
	h, _ := vfs.NewHandle(testPattern(13)) // a handle of ext4
	fh := s.appendHandle(m, nil, 1, &h)
	b.Run("make", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fh = s.appendHandle(m, fh[:0], 1, &h)
		}
	})
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _, _ = s.parseHandle(m, fh)
		}
	})
	b.Run("refuse", func(b *testing.B) {
		fh[8]++
		b.ReportAllocs()
		for b.Loop() {
			_, _, _ = s.parseHandle(m, fh)
		}
	})
}

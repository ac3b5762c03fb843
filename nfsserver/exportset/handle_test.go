package exportset

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// FuzzHandle checks that a handle without a seal is rejected with one of two errors, and that a
// sealed handle returns its content.
func FuzzHandle(f *testing.F) {
	s := newSealer(testKey)
	for _, n := range []int{0, 8, 13, 29, vfs.MaxHandle} {
		h, _ := vfs.NewHandle(testPattern(n))
		fh := s.appendHandle(new(macBuffer), nil, 0xfeed, &h)
		f.Add([]byte(fh))
		f.Add([]byte(fh[:len(fh)-1]))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		export, h, err := s.parseHandle(new(macBuffer), b)
		if err == nil {
			assert.Equal(t, b, s.appendHandle(new(macBuffer), nil, export, &h))
		} else {
			assert.Contains(t, []error{BadHandle, Stale}, err)
			assert.Zero(t, h)
		}
		in, ok := vfs.NewHandle(b)
		if !ok {
			return
		}
		fh := s.appendHandle(new(macBuffer), nil, uint32(len(b)), &in)
		export, h, err = s.parseHandle(new(macBuffer), fh)
		assert.NoError(t, err)
		assert.Equal(t, in, h)
		assert.EqualValues(t, len(b), export)
	})
}

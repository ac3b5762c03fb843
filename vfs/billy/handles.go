package billy

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// ownHandles are the handles without Options.Handles: a random number per FS, so that no later FS
// accepts them, and a counter.
type ownHandles struct {
	fs   uint64
	next atomic.Uint64
}

// ownHandleLen is such a handle's length in bytes.
const ownHandleLen = 16

func newOwnHandles() *ownHandles { return &ownHandles{fs: randomUint64()} }

// randomUint64 returns a random number. rand.Read never returns an error.
func randomUint64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:])
}

func (o *ownHandles) Handle([]string) ([]byte, error) {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, ownHandleLen), o.fs)
	return binary.BigEndian.AppendUint64(b, o.next.Add(1)), nil
}

func (o *ownHandles) Path(h []byte) ([]string, error) {
	if len(h) != ownHandleLen {
		return nil, vfs.ErrBadHandle
	}
	return nil, syscall.ESTALE
}

func (o *ownHandles) Forget([]byte) {}

// handleError reports that Handles returned a handle with n bytes.
func handleError(n int) error {
	return fmt.Errorf("billy: a file handle of %d bytes, must be 1 to %d", n, vfs.MaxHandle)
}

package mem

import "github.com/nfsrdma/nfsrdma/vfs"

var _ vfs.Identifier = (*FS)(nil)

// AppendKey appends the octets of the handle: an object has one (vfs.Identifier).
func (f *FS) AppendKey(b []byte, h vfs.Handle) ([]byte, error) {
	if h.Len() != handleLen {
		return b, vfs.ErrBadHandle
	}
	return h.AppendTo(b), nil
}

package nfsserver

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// The head of a file handle: version and export identity.
const (
	handleVersion = 1
	handleHead    = 1 + 4
)

// appendHandle appends the file handle of an export's object to b.
func appendHandle(b []byte, export uint32, h *vfs.Handle) []byte {
	b = binary.BigEndian.AppendUint32(append(b, handleVersion), export)
	return h.AppendTo(b)
}

// parseHandle takes a file handle apart; false if this server never made it.
func parseHandle(fh nfs3.FH) (export uint32, h vfs.Handle, ok bool) {
	if len(fh) < handleHead || fh[0] != handleVersion {
		return 0, vfs.Handle{}, false
	}
	h, ok = vfs.NewHandle(fh[handleHead:])
	return binary.BigEndian.Uint32(fh[1:]), h, ok
}

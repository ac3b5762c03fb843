package realm

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// The head of a file handle: version and export identity. Version 1 had no
// seal.
const (
	handleVersion = 2
	handleHead    = 1 + 4
)

// MaxHandle is the length in bytes of the longest file handle: that of NFSv3
// (RFC 1813, Section 2.4).
const MaxHandle = 64

// The longest handle of a file system fits.
const _ = uint(MaxHandle - handleHead - vfs.MaxHandle - sealLen)

// appendHandle appends the file handle of an export's object to b, which must
// be empty.
func (s *sealer) appendHandle(m *mac, b []byte, export uint32, h *vfs.Handle) []byte {
	b = binary.BigEndian.AppendUint32(append(b, handleVersion), export)
	return s.append(m, h.AppendTo(b))
}

// parseHandle parses a file handle. BadHandle means that no server of
// this kind made the handle. Stale means that a server with another key
// may have made it: to the client, the object has gone.
func (s *sealer) parseHandle(m *mac, fh []byte) (export uint32, h vfs.Handle, err error) {
	if len(fh) < handleHead+sealLen || fh[0] != handleVersion {
		return 0, h, BadHandle
	}
	h, ok := vfs.NewHandle(fh[handleHead : len(fh)-sealLen])
	switch {
	case !ok:
		return 0, h, BadHandle
	case !s.intact(m, fh):
		return 0, vfs.Handle{}, Stale
	}
	return binary.BigEndian.Uint32(fh[1:]), h, nil
}

// AppendSealed appends a handle of another kind to b, which must be empty: its
// version, body, and a seal of both.
func (s *Realm) AppendSealed(b []byte, version byte, body []byte) []byte {
	return s.seal.append(new(mac), append(append(b, version), body...))
}

// OpenSealed returns the body of a handle that AppendSealed made. BadHandle
// means that it is of another kind, Stale that another key sealed it.
func (s *Realm) OpenSealed(version byte, fh []byte) ([]byte, error) {
	switch {
	case len(fh) < 1+sealLen || fh[0] != version:
		return nil, BadHandle
	case !s.seal.intact(new(mac), fh):
		return nil, Stale
	}
	return fh[1 : len(fh)-sealLen], nil
}

// ExportOf returns the identity of the export in a file handle, whose seal it
// does not check.
func (s *Realm) ExportOf(fh []byte) (uint32, error) {
	if len(fh) < handleHead+sealLen || fh[0] != handleVersion {
		return 0, BadHandle
	}
	return binary.BigEndian.Uint32(fh[1:]), nil
}

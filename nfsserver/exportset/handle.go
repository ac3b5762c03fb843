package exportset

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A file handle's head contains a version and the export's identity. Version 1 had no seal.
const (
	handleVersion = 2
	handleHead    = 1 + 4
)

// MaxHandle is the maximum length in bytes of a file handle in NFSv3 (RFC 1813, Section 2.4).
const MaxHandle = 64

// The longest file system handle must fit.
const _ = uint(MaxHandle - handleHead - vfs.MaxHandle - sealLen)

// appendHandle appends the file handle of an object in an export to b, which must be empty.
func (s *sealer) appendHandle(m *macBuffer, b []byte, export uint32, h *vfs.Handle) []byte {
	b = binary.BigEndian.AppendUint32(append(b, handleVersion), export)
	return s.appendSeal(m, h.AppendTo(b))
}

// parseHandle parses a file handle. BadHandle means that no server of this kind made the
// handle. Stale means that a server with another key may have made it: to the client, the
// object does not exist any more.
func (s *sealer) parseHandle(m *macBuffer, fh []byte) (export uint32, h vfs.Handle, err error) {
	if len(fh) < handleHead+sealLen || fh[0] != handleVersion {
		return 0, h, BadHandle
	}
	h, ok := vfs.NewHandle(fh[handleHead : len(fh)-sealLen])
	switch {
	case !ok:
		return 0, h, BadHandle
	case !s.hasValidSeal(m, fh):
		return 0, vfs.Handle{}, Stale
	}
	return binary.BigEndian.Uint32(fh[1:]), h, nil
}

// AppendSealed appends a handle of another kind to b, which must be empty: its version, body,
// and a seal over both.
func (s *Set) AppendSealed(b []byte, version byte, body []byte) []byte {
	return s.seal.appendSeal(new(macBuffer), append(append(b, version), body...))
}

// OpenSealed returns the body of a handle from AppendSealed. BadHandle means that it is of
// another kind, Stale that another key sealed it.
func (s *Set) OpenSealed(version byte, fh []byte) ([]byte, error) {
	switch {
	case len(fh) < 1+sealLen || fh[0] != version:
		return nil, BadHandle
	case !s.seal.hasValidSeal(new(macBuffer), fh):
		return nil, Stale
	}
	return fh[1 : len(fh)-sealLen], nil
}

// ExportOf returns the export's identity in a file handle. It does not check the seal.
func (s *Set) ExportOf(fh []byte) (uint32, error) {
	if len(fh) < handleHead+sealLen || fh[0] != handleVersion {
		return 0, BadHandle
	}
	return binary.BigEndian.Uint32(fh[1:]), nil
}

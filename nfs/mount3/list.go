package mount3

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// ListEnd is the length of the end of a DumpRes or ExportRes in bytes, which is
// not part of any entry's size.
const ListEnd = 4

// A Mount is a mountbody: a client and the path that it has mounted.
type Mount struct {
	Host []byte // at most NameLen bytes
	Path []byte // at most PathLen bytes
}

// Size returns the length in bytes of m's wire form in a list.
func (m *Mount) Size() int { return MountSize(len(m.Host), len(m.Path)) }

// MountSize returns the Size of a Mount whose Host and Path have the given
// lengths.
func MountSize(host, path int) int { return 4 + opaqueSize(host) + opaqueSize(path) }

// DumpRes are the DUMP results.
type DumpRes struct{ Mounts []Mount }

// AppendTo appends s's wire form to b.
func (s *DumpRes) AppendTo(b []byte) []byte {
	for _, m := range s.Mounts {
		b = xdr.AppendOpaque(xdr.AppendBool(b, true), m.Host)
		b = xdr.AppendOpaque(b, m.Path)
	}
	return xdr.AppendBool(b, false)
}

// Decode reads s.
func (s *DumpRes) Decode(r *xdr.Reader) {
	s.Mounts = nil
	for r.Bool() {
		s.Mounts = append(s.Mounts, Mount{Host: r.Opaque(NameLen), Path: r.Opaque(PathLen)})
	}
}

// An Export is an exportnode: a path and the client groups that may mount it.
// No group means everyone.
type Export struct {
	Path   []byte   // at most PathLen bytes
	Groups [][]byte // at most NameLen bytes each
}

// Size returns the length in bytes of e's wire form in a list.
func (e *Export) Size() int {
	n := 4 + opaqueSize(len(e.Path)) + 4
	for _, g := range e.Groups {
		n += 4 + opaqueSize(len(g))
	}
	return n
}

// ExportRes are the EXPORT results.
type ExportRes struct{ Exports []Export }

// AppendTo appends s's wire form to b.
func (s *ExportRes) AppendTo(b []byte) []byte {
	for _, e := range s.Exports {
		b = xdr.AppendOpaque(xdr.AppendBool(b, true), e.Path)
		for _, g := range e.Groups {
			b = xdr.AppendOpaque(xdr.AppendBool(b, true), g)
		}
		b = xdr.AppendBool(b, false)
	}
	return xdr.AppendBool(b, false)
}

// Decode reads s.
func (s *ExportRes) Decode(r *xdr.Reader) {
	s.Exports = nil
	for r.Bool() {
		e := Export{Path: r.Opaque(PathLen)}
		for r.Bool() {
			e.Groups = append(e.Groups, r.Opaque(NameLen))
		}
		s.Exports = append(s.Exports, e)
	}
}

// opaqueSize returns the wire size of n bytes of opaque data.
func opaqueSize(n int) int { return 4 + n + xdr.Pad(n) }

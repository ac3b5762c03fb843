package nfs3

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// An FH is an nfs_fh3: at most FHSize bytes that only the server can interpret.
type FH []byte

// AppendTo appends h's wire form to b. The caller must keep h within FHSize.
func (h FH) AppendTo(b []byte) []byte { return xdr.AppendOpaque(b, h) }

// Decode reads h, which aliases the Reader's input.
func (h *FH) Decode(r *xdr.Reader) { *h = r.Opaque(FHSize) }

// appendPost appends h as a post_op_fh3: nil means no handle.
func (h FH) appendPost(b []byte) []byte {
	b = xdr.AppendBool(b, h != nil)
	if h != nil {
		b = h.AppendTo(b)
	}
	return b
}

// decodePost reads a post_op_fh3.
func (h *FH) decodePost(r *xdr.Reader) {
	*h = nil
	if r.Bool() {
		h.Decode(r)
	}
}

// HandleArgs are the GETATTR, READLINK, FSSTAT, FSINFO and PATHCONF arguments:
// an object.
type HandleArgs struct{ Object FH }

// AppendTo appends a's wire form to b.
func (a *HandleArgs) AppendTo(b []byte) []byte { return a.Object.AppendTo(b) }

// Decode reads a.
func (a *HandleArgs) Decode(r *xdr.Reader) { a.Object.Decode(r) }

// DirOpArgs are a diropargs3, a name in a directory: the arguments of LOOKUP,
// REMOVE and RMDIR, and part of others.
type DirOpArgs struct {
	Dir  FH
	Name []byte // only the message limits its length; see MaxName
}

// AppendTo appends a's wire form to b.
func (a *DirOpArgs) AppendTo(b []byte) []byte {
	return xdr.AppendOpaque(a.Dir.AppendTo(b), a.Name)
}

// Decode reads a.
func (a *DirOpArgs) Decode(r *xdr.Reader) {
	a.Dir.Decode(r)
	a.Name = r.Opaque(unbounded)
}

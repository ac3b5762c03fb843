package discover

import (
	"fmt"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A queryBody requests a server's description. It is padded with zeros to the maximum
// length of an acceptable answer.
type queryBody struct {
	First uint32 // the first export of the answer
}

// An answerBody is a server's description of itself.
type answerBody struct {
	Cookie  uint64         // for requests that need one
	RDMA    netip.AddrPort // RPC-over-RDMA's address; unspecified means the answer's source
	TCP     netip.AddrPort // port 0: not served
	Host    string
	Version string // program version

	// Total is the number of exports. Exports are those from First on that fit.
	// "" is an export whose name does not fit a datagram.
	Total   uint32
	First   uint32
	Exports []string
}

// AppendTo appends the wire form.
func (q queryBody) AppendTo(b []byte) []byte { return xdr.AppendUint32(b, q.First) }

func parseQuery(r *xdr.Reader) (q queryBody, err error) {
	q.First = r.Uint32()
	return q, bodyError(r)
}

// AppendTo appends the wire form, with as many exports as fit into most bytes.
// ok is false if there are exports and none fits, or if the other fields do not
// fit.
func (a *answerBody) AppendTo(b []byte, most int) (_ []byte, ok bool) {
	b = xdr.AppendUint64(b, a.Cookie)
	b = appendAddr(b, a.RDMA)
	b = appendAddr(b, a.TCP)
	b = xdr.AppendString(b, truncateName(a.Host))
	b = xdr.AppendString(b, truncateName(a.Version))
	b = xdr.AppendUint32(b, a.Total)
	b = xdr.AppendUint32(b, a.First)
	at := len(b)
	b = xdr.AppendUint32(b, 0)
	if len(b) > most {
		return b, false
	}
	n := uint32(0)
	for _, e := range a.Exports {
		next := xdr.AppendString(b, e)
		if len(next) > most && n == 0 {
			next = xdr.AppendString(b, "") // otherwise the client would send queries forever
		}
		if len(next) > most {
			break
		}
		b, n = next, n+1
	}
	copy(b[at:], xdr.AppendUint32(nil, n))
	return b, n > 0 || len(a.Exports) == 0
}

func parseAnswer(r *xdr.Reader) (a answerBody, err error) {
	a.Cookie = r.Uint64()
	a.RDMA, a.TCP = parseAddr(r), parseAddr(r)
	a.Host, a.Version = r.String(maxName), r.String(maxName)
	a.Total, a.First = r.Uint32(), r.Uint32()
	n := r.Uint32()
	if int64(n) > int64(r.Left()/4) {
		r.Fail(xdr.ErrLong)
		n = 0
	}
	for range n {
		a.Exports = append(a.Exports, r.String(maxPath))
	}
	return a, bodyError(r)
}

// appendAddr appends a 16-byte address, with IPv4 mapped into IPv6, and a port.
func appendAddr(b []byte, a netip.AddrPort) []byte {
	var word [16]byte
	if a.Addr().IsValid() {
		word = a.Addr().As16()
	}
	return xdr.AppendUint32(xdr.AppendFixed(b, word[:]), uint32(a.Port()))
}

func parseAddr(r *xdr.Reader) netip.AddrPort {
	data, port := r.Fixed(16), r.Uint32()
	if port > 1<<16-1 {
		r.Fail(xdr.ErrValue)
	}
	if r.Err() != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte(data)).Unmap(), uint16(port))
}

// truncateName truncates a name to maxName bytes.
func truncateName(s string) string { return s[:min(len(s), maxName)] }

// bodyError returns a message's error. It ignores bytes after the body: padding, or
// additions from a later version.
func bodyError(r *xdr.Reader) error {
	if err := r.Err(); err != nil {
		return fmt.Errorf("%w: %w", errForm, err)
	}
	return nil
}

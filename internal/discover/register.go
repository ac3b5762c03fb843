package discover

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// A registerBody requests a notice when the server restarts.
type registerBody struct {
	Token uint64 // a secret, which the notice repeats
	Leave bool   // removes the registration
}

// registeredBody has the lifetime of the registration.
type registeredBody struct {
	Seconds uint32
}

// A noticeBody reports that the server has been restarted. Its header has the new boot
// number.
type noticeBody struct {
	Token uint64
}

// refusedBody reports why a request was rejected.
type refusedBody struct {
	Reason Reason
	Cookie uint64 // a valid one
}

// A Reason is the cause of a rejection.
type Reason uint32

// The reasons.
const (
	refusedCookie Reason = 1 // the request needs the enclosed cookie
	refusedFull   Reason = 2 // the table is full
	refusedHost   Reason = 3 // not to this address
	refusedValue  Reason = 4 // the server cannot do what the request asks for
)

// String returns the reason as text.
func (r Reason) String() string {
	switch r {
	case refusedCookie:
		return "the server requires a new cookie"
	case refusedFull:
		return "the server's table of clients is full"
	case refusedHost:
		return "the server does not show its counters to this address; name the address in nfsrdmad serve --monitors"
	case refusedValue:
		return "the server does not support the request"
	}
	return "the server refused"
}

// AppendTo appends the wire form.
func (m registerBody) AppendTo(b []byte) []byte {
	return xdr.AppendBool(xdr.AppendUint64(b, m.Token), m.Leave)
}

func parseRegister(r *xdr.Reader) (m registerBody, err error) {
	m.Token, m.Leave = r.Uint64(), r.Bool()
	return m, bodyError(r)
}

// AppendTo appends the wire form.
func (m registeredBody) AppendTo(b []byte) []byte { return xdr.AppendUint32(b, m.Seconds) }

func parseRegistered(r *xdr.Reader) (m registeredBody, err error) {
	m.Seconds = r.Uint32()
	return m, bodyError(r)
}

// AppendTo appends the wire form.
func (m noticeBody) AppendTo(b []byte) []byte { return xdr.AppendUint64(b, m.Token) }

func parseNotice(r *xdr.Reader) (m noticeBody, err error) {
	m.Token = r.Uint64()
	return m, bodyError(r)
}

// AppendTo appends the wire form.
func (m refusedBody) AppendTo(b []byte) []byte {
	return xdr.AppendUint64(xdr.AppendUint32(b, uint32(m.Reason)), m.Cookie)
}

func parseRefused(r *xdr.Reader) (m refusedBody, err error) {
	m.Reason, m.Cookie = Reason(r.Uint32()), r.Uint64()
	return m, bodyError(r)
}

package discover

import "github.com/nfsrdma/nfsrdma/xdr"

// A Register asks for a notice of the server's restart.
type Register struct {
	Token uint64 // a secret, which the notice repeats
	Leave bool   // ends the registration
}

// Registered gives the duration of the registration.
type Registered struct {
	Seconds uint32
}

// A Notice reports that the server has been restarted. Its Reply has the new
// boot.
type Notice struct {
	Token uint64
}

// Refused reports why a request was refused.
type Refused struct {
	Reason Reason
	Cookie uint64 // a valid one
}

// A Reason is the cause of a refusal.
type Reason uint32

// The reasons.
const (
	RefusedCookie Reason = 1 // the request needs the enclosed cookie
	RefusedRoom   Reason = 2 // the table is full
	RefusedHost   Reason = 3 // not to this address
	RefusedValue  Reason = 4 // the request asks for something impossible
)

// String returns the reason in words.
func (r Reason) String() string {
	switch r {
	case RefusedCookie:
		return "the server requires a new cookie"
	case RefusedRoom:
		return "the server has no room for another client"
	case RefusedHost:
		return "the server does not show its counters to this address; name the address in nfsrdmad serve --monitors"
	case RefusedValue:
		return "the server does not support the request"
	}
	return "the server refused"
}

// AppendTo appends the wire form.
func (m Register) AppendTo(b []byte) []byte {
	return xdr.AppendBool(xdr.AppendUint64(b, m.Token), m.Leave)
}

func parseRegister(r *xdr.Reader) (m Register, err error) {
	m.Token, m.Leave = r.Uint64(), r.Bool()
	return m, bodyError(r)
}

// AppendTo appends the wire form.
func (m Registered) AppendTo(b []byte) []byte { return xdr.AppendUint32(b, m.Seconds) }

func parseRegistered(r *xdr.Reader) (m Registered, err error) {
	m.Seconds = r.Uint32()
	return m, bodyError(r)
}

// AppendTo appends the wire form.
func (m Notice) AppendTo(b []byte) []byte { return xdr.AppendUint64(b, m.Token) }

func parseNotice(r *xdr.Reader) (m Notice, err error) {
	m.Token = r.Uint64()
	return m, bodyError(r)
}

// AppendTo appends the wire form.
func (m Refused) AppendTo(b []byte) []byte {
	return xdr.AppendUint64(xdr.AppendUint32(b, uint32(m.Reason)), m.Cookie)
}

func parseRefused(r *xdr.Reader) (m Refused, err error) {
	m.Reason, m.Cookie = Reason(r.Uint32()), r.Uint64()
	return m, bodyError(r)
}

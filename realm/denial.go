package realm

// A Denial is the reason for which a call is refused before a file system sees
// it. Each program has a status of its own for a Denial.
type Denial uint8

// The values of Denial.
const (
	BadHandle      Denial = iota + 1 // no server of this kind made the handle
	Stale                            // the handle's object or export is gone
	Access                           // the client may not use the export, or the caller the object
	Perm                             // the call must come from a reserved port, or from the owner
	ReadOnly                         // the client may only read
	XDev                             // the objects are in two exports
	Later                            // the client must ask again: nothing has been done
	WrongSec                         // the export takes calls of the client, but not of their security flavour
	WrongTransport                   // the export takes calls of the client, but not by so weak a transport
)

var denials = [...]string{
	BadHandle: "not a handle of this server",
	Stale:     "the object or its export is gone",
	Access:    "access is refused",
	Perm:      "the operation is not permitted",
	ReadOnly:  "the export is read-only",
	XDev:      "the objects are in two exports",
	Later:     "the client must ask again later",
	WrongSec:  "the export takes calls of other security flavours",

	WrongTransport: "the export takes calls by connections with more protection (TLS)",
}

// BySecurity reports whether err refuses the security of a call, so that another call
// of the same client may be taken. To a client, both reasons are one.
func BySecurity(err error) bool { return err == WrongSec || err == WrongTransport }

// Error describes the denial.
func (d Denial) Error() string { return "realm: " + denials[d] }

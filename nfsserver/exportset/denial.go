package exportset

// A Denial is the reason why a call is rejected before a file system sees it. Each program has
// its own status for a Denial.
type Denial uint8

// Values of Denial.
const (
	BadHandle      Denial = iota + 1 // no server of this kind made the handle
	Stale                            // the handle's object or export does not exist any more
	Access                           // the client may not use the export, or the caller the object
	Perm                             // the call must come from a reserved port, or from the owner
	ReadOnly                         // the client may only read
	XDev                             // the objects are in two exports
	Later                            // the client must try again: nothing has been done
	WrongSec                         // the export accepts the client's calls, but not with this security flavor
	WrongTransport                   // the export accepts the client's calls, but not over such a weak transport
)

var denialTexts = [...]string{
	BadHandle: "not a handle from this server",
	Stale:     "the object or its export does not exist",
	Access:    "access denied",
	Perm:      "the operation is not permitted",
	ReadOnly:  "the export is read-only",
	XDev:      "the objects are in two exports",
	Later:     "the client must try again later",
	WrongSec:  "the export accepts only other security flavors",

	WrongTransport: "the export requires a connection with TLS",
}

// IsSecurityDenial reports whether err rejects the call's security, so that another call from
// the same client may be accepted. To a client, both reasons look the same.
func IsSecurityDenial(err error) bool { return err == WrongSec || err == WrongTransport }

// Error describes the denial.
func (d Denial) Error() string { return "exportset: " + denialTexts[d] }

package exportset

import (
	"strings"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

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

// maxLoggedClients is the number of an export's clients in a log line.
const maxLoggedClients = 8

// LogRejection logs the rule because of which e rejects a peer's call with err, if err is Access
// or Perm. The log is rate-limited.
func (s *Set) LogRejection(p *oncrpc.Peer, e *Exported, err error) {
	switch err {
	case Access:
		var hosts []string
		for i := range e.Clients[:min(len(e.Clients), maxLoggedClients)] {
			hosts = append(hosts, e.Clients[i].Host.String())
		}
		if n := len(e.Clients) - len(hosts); n > 0 {
			hosts = append(hosts, "...")
		}
		s.log.Warn("rejecting calls: the export is not for this client; add it to the export's clients",
			"export", e.Path, "client", addrOf(p), "clients", strings.Join(hosts, " "))
	case Perm:
		s.log.Warn("rejecting calls: the export requires a source port below 1024; mount as root, or add the option insecure",
			"export", e.Path, "client", addrOf(p), "port", p.Addr.Port())
	}
}

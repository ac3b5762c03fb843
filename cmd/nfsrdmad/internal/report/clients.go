package report

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4server"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// MaxListed bounds the clients in one list, and maxAddrs the addresses per client.
const (
	MaxListed = 1000
	maxAddrs  = 16
)

// A ClientList is the control socket's response at /clients and the output of clients
// --json. docs/operations.md describes it.
type ClientList struct {
	Version int         `json:"version"`
	Served  bool        `json:"served"` // NFSv4 is served
	Total   int         `json:"total"`
	Clients []clientDoc `json:"clients"`
}

type clientDoc struct {
	ID          string    `json:"id"`        // hexadecimal
	Owner       string    `json:"owner"`     // quoted as in Go if it is not plain text
	OwnerHex    string    `json:"owner_hex"` // the owner's bytes
	Impl        string    `json:"implementation"`
	Transport   string    `json:"transport"` // tcp, rdma, or nlm for a client with NFSv3 locks
	Addresses   []string  `json:"addresses"`
	Version     string    `json:"nfs_version"` // 3, 4.0, 4.1 or 4.2
	Principal   string    `json:"principal"`
	State       string    `json:"state"` // unconfirmed, confirmed or courtesy
	Sessions    []Session `json:"sessions"`
	Opens       int       `json:"opens"`
	Locks       int       `json:"locks"`
	Delegations int       `json:"delegations"`
	Writes      int       `json:"write_delegations"` // write delegations among them
	Revoked     int       `json:"revoked"`
	Silent      float64   `json:"silent_seconds"`
}

// A Session describes an NFSv4 session.
type Session struct {
	Slots       int `json:"slots"`
	InUse       int `json:"slots_in_use"`
	Connections int `json:"connections"`
}

// SchemaVersion returns the document's version.
func (d *ClientList) SchemaVersion() int { return d.Version }

// CollectClients lists the current clients.
func (src *Source) CollectClients() *ClientList {
	d := &ClientList{Version: SchemaVersion, Clients: []clientDoc{}}
	if src.ClientState == nil {
		return d
	}
	list, all := src.ClientState.Clients(MaxListed)
	d.Served, d.Total = src.NFS4 != nil, all
	for i := range list {
		d.Clients = append(d.Clients, newClientDoc(&list[i]))
	}
	return d
}

func newClientDoc(c *nfs4server.ClientInfo) clientDoc {
	d := clientDoc{
		ID: fmt.Sprintf("%016x", c.ID), Owner: quoteUnprintable(c.Owner), OwnerHex: hex.EncodeToString([]byte(c.Owner)), Impl: quoteUnprintable(c.Impl),
		Transport: "tcp", Addresses: []string{}, Version: fmt.Sprintf("4.%d", c.Minor), Principal: formatPrincipal(c.Principal),
		State: "unconfirmed", Sessions: []Session{}, Opens: c.Opens, Locks: c.Locks, Delegations: c.Delegations, Writes: c.Writes, Revoked: c.Revoked, Silent: c.Silent.Seconds(),
	}
	if c.ClientInfo.Transport == nfs4state.RDMA {
		d.Transport = "rdma"
	}
	if c.Machine {
		d.Transport, d.Version, d.Principal = "nlm", "3", "-"
	}
	switch {
	case c.Courtesy:
		d.State = "courtesy"
	case c.Confirmed:
		d.State = "confirmed"
	}
	for _, a := range c.Addrs[:min(len(c.Addrs), maxAddrs)] {
		if c.Machine { // its port changes
			d.Addresses = append(d.Addresses, a.Addr().String())
			continue
		}
		d.Addresses = append(d.Addresses, a.String())
	}
	for _, s := range c.Sessions {
		d.Sessions = append(d.Sessions, Session{s.Slots, s.Running, len(s.Conns)})
	}
	return d
}

// formatPrincipal names the principal that created a client's record.
func formatPrincipal(p nfs4state.Principal) string {
	switch p.Flavor {
	case rpcmsg.AuthSys:
		return fmt.Sprintf("uid %d", p.UID)
	case rpcmsg.AuthNone:
		return "none"
	case rpcmsg.AuthGSS:
		return "kerberos, " + truncateName(quoteUnprintable(p.Name))
	}
	return fmt.Sprintf("flavor %d", p.Flavor)
}

// PrintText prints the list as a table.
func (d *ClientList) PrintText(w io.Writer, _ time.Time) error {
	if !d.Served && d.Total == 0 {
		_, err := fmt.Fprintln(w, "the daemon does not serve NFSv4: see nfsrdmad serve --vers")
		return err
	}
	p := &textPage{}
	p.tab = tabwriter.NewWriter(&p.text, 0, 0, 2, ' ', 0)
	p.addRow("CLIENT", "OWNER", "ADDRESS", "VIA", "NFS", "PRINCIPAL", "STATE", "SESSIONS", "SLOTS", "OPENS", "LOCKS", "DELEGATIONS", "SILENT")
	for i := range d.Clients {
		d.Clients[i].addRow(p)
	}
	p.tab.Flush() // into memory
	switch rest := d.Total - len(d.Clients); {
	case d.Total == 0:
		p.text.Reset()
		p.text.WriteString("no NFSv4 clients\n")
	case rest > 0:
		fmt.Fprintf(&p.text, "and %d more\n", rest)
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

// addRow adds a client to a table.
func (c *clientDoc) addRow(p *textPage) {
	slots, used := 0, 0
	for _, s := range c.Sessions {
		slots += s.Slots
		used += s.InUse
	}
	addr := "-"
	if n := len(c.Addresses); n > 0 {
		addr = c.Addresses[0]
		if n > 1 {
			addr += fmt.Sprintf(" +%d", n-1)
		}
	}
	p.addRow(c.ID, truncateName(c.Owner), addr, c.Transport, c.Version, c.Principal, c.State, len(c.Sessions),
		fmt.Sprintf("%d/%d", used, slots), c.Opens, c.Locks, c.Delegations, formatSpan(time.Duration(c.Silent*float64(time.Second))))
}

// truncateName shortens a printable name to a column 60 characters wide.
func truncateName(name string) string {
	const most = 60
	if runes := []rune(name); len(runes) > most {
		return strings.TrimSpace(string(runes[:most-3])) + "..."
	}
	return name
}

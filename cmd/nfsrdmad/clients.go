package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/nfs4server"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// maxListed bounds the clients in one list, and maxAddrs the addresses of a
// client.
const (
	maxListed = 1000
	maxAddrs  = 16
)

// A clientsDoc is the answer of the control socket at /clients and the output of
// clients --json. docs/operations.md describes it.
type clientsDoc struct {
	Version int         `json:"version"`
	Served  bool        `json:"served"` // version 4 is served
	Total   int         `json:"total"`
	Clients []clientDoc `json:"clients"`
}

type clientDoc struct {
	ID          string       `json:"id"`        // hexadecimal
	Owner       string       `json:"owner"`     // quoted as in Go if it is not plain text
	OwnerHex    string       `json:"owner_hex"` // its bytes
	Impl        string       `json:"implementation"`
	Transport   string       `json:"transport"` // tcp, rdma, or nlm of a client that locks files of version 3
	Addresses   []string     `json:"addresses"`
	Version     string       `json:"nfs_version"` // 3, 4.0, 4.1 or 4.2
	Principal   string       `json:"principal"`
	State       string       `json:"state"` // unconfirmed, confirmed or courtesy
	Sessions    []sessionDoc `json:"sessions"`
	Opens       int          `json:"opens"`
	Locks       int          `json:"locks"`
	Delegations int          `json:"delegations"`
	Writes      int          `json:"write_delegations"` // of these, those for writing
	Revoked     int          `json:"revoked"`
	Silent      float64      `json:"silent_seconds"`
}

type sessionDoc struct {
	Slots       int `json:"slots"`
	InUse       int `json:"slots_in_use"`
	Connections int `json:"connections"`
}

func newClients() *cobra.Command {
	cmd := shows("clients", new(clientsDoc), &cobra.Command{
		Use:   "clients [--json | --expire ID | --end-grace]",
		Short: "List the clients of a running daemon that hold files or locks, or end their state",
		Long: fmt.Sprintf(`List the clients of NFS version 4 of a running daemon, and those of version 3
with locks: their names, addresses, sessions, and how many files and locks
they hold. A client in state courtesy
has been silent for longer than its lease, and keeps what it holds until another
client needs it. The list ends after %d clients.

--expire ends a client with all that it holds, as if its lease had expired and
others needed its state: for a client that is gone for good, and in the way. A
client that is alive loses its open files and locks. ID is in the first column.

After a restart of the daemon, clients reclaim their open files and locks. Until
they have done so, or for 45 s, locks that others could have are not granted
(grace). --end-grace ends that at once: clients that have not come back lose
what they held.

--json prints one object; docs/operations.md describes its fields.`, maxListed),
		Example: `  nfsrdmad clients
  nfsrdmad clients --json | jq '.clients[] | select(.state == "courtesy") | .owner'
  nfsrdmad clients --expire 6926b3a4f3c95d11`,
	})
	return ordersClients(cmd)
}

func (d *clientsDoc) version() int { return d.Version }

// clients collects the list.
func (p *operations) clients() *clientsDoc {
	d := &clientsDoc{Version: statusVersion, Clients: []clientDoc{}}
	if p.holders == nil {
		return d
	}
	list, all := p.holders.Clients(maxListed)
	d.Served, d.Total = p.four != nil, all
	for i := range list {
		d.Clients = append(d.Clients, newClientDoc(&list[i]))
	}
	return d
}

func newClientDoc(c *nfs4server.ClientInfo) clientDoc {
	d := clientDoc{
		ID: fmt.Sprintf("%016x", c.ID), Owner: printable(c.Owner), OwnerHex: hex.EncodeToString([]byte(c.Owner)), Impl: printable(c.Impl),
		Transport: "tcp", Addresses: []string{}, Version: fmt.Sprintf("4.%d", c.Minor), Principal: principal(c.Principal),
		State: "unconfirmed", Sessions: []sessionDoc{}, Opens: c.Opens, Locks: c.Locks, Delegations: c.Delegations, Writes: c.Writes, Revoked: c.Revoked, Silent: c.Silent.Seconds(),
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
		if c.Machine { // of any port
			d.Addresses = append(d.Addresses, a.Addr().String())
			continue
		}
		d.Addresses = append(d.Addresses, a.String())
	}
	for _, s := range c.Sessions {
		d.Sessions = append(d.Sessions, sessionDoc{s.Slots, s.Running, len(s.Conns)})
	}
	return d
}

// principal names the maker of a client's record.
func principal(p nfs4state.Principal) string {
	switch p.Flavor {
	case rpcmsg.AuthSys:
		return fmt.Sprintf("uid %d", p.UID)
	case rpcmsg.AuthNone:
		return "none"
	case rpcmsg.AuthGSS:
		return "kerberos, " + short60(printable(p.Name))
	}
	return fmt.Sprintf("flavor %d", p.Flavor)
}

// print prints the list as a table.
func (d *clientsDoc) print(w io.Writer, _ time.Time) error {
	if !d.Served && d.Total == 0 {
		_, err := fmt.Fprintln(w, "the daemon does not serve version 4: see nfsrdmad serve --vers")
		return err
	}
	p := &page{}
	p.tab = tabwriter.NewWriter(&p.text, 0, 0, 2, ' ', 0)
	p.row("CLIENT", "OWNER", "ADDRESS", "VIA", "NFS", "PRINCIPAL", "STATE", "SESSIONS", "SLOTS", "OPENS", "LOCKS", "DELEGATIONS", "SILENT")
	for i := range d.Clients {
		d.Clients[i].row(p)
	}
	p.tab.Flush() // into memory
	switch rest := d.Total - len(d.Clients); {
	case d.Total == 0:
		p.text.Reset()
		p.text.WriteString("no clients of version 4\n")
	case rest > 0:
		fmt.Fprintf(&p.text, "and %d more\n", rest)
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

// row adds a client to a table.
func (c *clientDoc) row(p *page) {
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
	p.row(c.ID, short60(c.Owner), addr, c.Transport, c.Version, c.Principal, c.State, len(c.Sessions),
		fmt.Sprintf("%d/%d", used, slots), c.Opens, c.Locks, c.Delegations, span(time.Duration(c.Silent*float64(time.Second))))
}

// short60 cuts a printable name for a column. It has only one line, and no
// bytes that a terminal obeys.
func short60(name string) string {
	const most = 60
	if runes := []rune(name); len(runes) > most {
		return strings.TrimSpace(string(runes[:most-3])) + "..."
	}
	return name
}

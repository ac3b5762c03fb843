package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

func (a *app) newInfo() *cobra.Command {
	var srv server
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info SERVER[:PORT]",
		Short: "Show the settings agreed with a server, and its exports",
		Long: `Show the settings agreed with a server: MPA (revision, CRC, markers, the RDMA
Reads that each end serves at once), RPC-over-RDMA (the longest messages sent
without RDMA, credits, remote invalidation, the extensions that a mount would
use), the versions of NFS that it answers (3, 4.1, 4.2), and the address of
MOUNT, with the exports. Of a server of version 4 it shows who the server says
it is, its lease time, the limits of a session, and the exports in the version 4
namespace, whose paths may differ from those of MOUNT.

Remote invalidation is in three parts, because an announcement does not bind a
server: whether this client and the server announce that they accept a Send With
Invalidate, and whether the server sent one when a call allowed it.`,
		Args: a.serverArg(&srv),
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := a.info(cmd.Context(), srv)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.stdout, i)
			}
			return i.print(a.stdout)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as a JSON object")
	return cmd
}

// info describes a server. Scripts depend on its JSON.
type info struct {
	Server  string      `json:"server"`  // as in the argument
	Address string      `json:"address"` // connected to
	TLS     tlsInfo     `json:"tls"`
	Proto   string      `json:"proto"`         // rdma or tcp
	MPA     *mpaInfo    `json:"mpa,omitempty"` // of RDMA, as the next
	RPC     *rpcInfo    `json:"rpcrdma,omitempty"`
	Mount   string      `json:"mount,omitempty"` // the address that answers
	Exports []shareInfo `json:"exports"`
	Problem string      `json:"mount_error,omitempty"`
	problem error

	Versions []string  `json:"versions"`             // of NFS that the server answers
	V4       *nfs4Info `json:"nfs4,omitempty"`       // by the highest minor version
	V4Error  string    `json:"nfs4_error,omitempty"` // why the server's version 4 is of no use
}

type mpaInfo struct {
	Revision   int  `json:"revision"`
	CRC        bool `json:"crc"`
	Markers    bool `json:"markers"` // in one direction or both
	PeerToPeer bool `json:"peer_to_peer"`
	IRD        int  `json:"ird"`        // RDMA Reads of the server that this client serves at a time
	ORD        int  `json:"ord"`        // RDMA Reads that this client may have outstanding
	ServerIRD  int  `json:"server_ird"` // from the server's start-up frame
	ServerORD  int  `json:"server_ord"`
}

type rpcInfo struct {
	Version      int        `json:"version"`
	PrivateData  bool       `json:"private_data"` // the server sent private data of RFC 8797
	InlineSend   int        `json:"inline_send"`  // bytes, to the server
	InlineRecv   int        `json:"inline_recv"`  // bytes, from the server
	Credits      int        `json:"credits"`
	Invalidation invalidity `json:"remote_invalidation"`
	Extensions   extensions `json:"extensions"`
}

// extensions is the set of extensions active between this program and nfsrdmad.
type extensions struct {
	Server     bool `json:"server"`         // the server knows them
	Immediate  int  `json:"immediate_data"` // most unanswered at a time
	Atomics    bool `json:"atomics"`
	Delegation bool `json:"delegation"`
	Counters   int  `json:"counters"` // words in the server's memory
}

type invalidity struct {
	Client bool `json:"client"` // announced by this client
	Server bool `json:"server"` // announced by the server
	Seen   bool `json:"seen"`   // the server did it
}

type shareInfo struct {
	Path    string   `json:"path"`
	URL     string   `json:"url"`     // with every byte of the path
	Clients []string `json:"clients"` // empty: everyone
}

// info asks a server. A missing MOUNT service is part of the result, not an
// error.
func (a *app) info(ctx context.Context, srv server) (*info, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
	defer cancel()
	cfg := a.asMount()
	cfg.AnyVersion = true
	s, err := a.sessionBy(ctx, srv, cfg)
	if err != nil {
		return nil, err
	}
	err = s.provoke(ctx)
	_, refused := errors.AsType[*oncrpc.ReplyError](err)
	if err != nil && !refused {
		return nil, helloError(ctx, srv.addr(), err)
	}
	i := &info{Server: srv.addr(), Address: s.netConn().RemoteAddr().String(), TLS: s.tlsInfo(), Proto: a.proto.Word, Exports: []shareInfo{}}
	if s.rdma != nil {
		i.MPA, i.RPC = s.mpaInfo(), s.rpcInfo()
	}
	if !refused {
		i.Versions = []string{"3"}
		if i.Mount, err = s.mountAt(ctx); err == nil {
			err = s.list(ctx)
		}
		if err != nil {
			if ended(ctx) {
				return nil, err
			}
			i.Problem, i.problem = err.Error(), err
		}
	}
	if err := a.info4(ctx, srv, i); err != nil {
		return nil, err
	}
	if len(i.Versions) == 0 {
		return nil, helloError(ctx, srv.addr(), err)
	}
	for _, e := range s.exports {
		url := location{server: srv, path: clean(e.Path)}
		i.Exports = append(i.Exports, shareInfo{Path: e.Path, URL: url.String(), Clients: append([]string{}, e.Clients...)})
	}
	return i, nil
}

// provoke makes a call that offers memory for its reply, which gives a server
// the opportunity to invalidate memory remotely.
func (s *session) provoke(ctx context.Context) error {
	x := oncrpc.Exchange{Prog: nfs3.Program, Vers: nfs3.Version}
	if s.rdma != nil {
		_, inline := s.rdma.Conn().Thresholds()
		x.MaxResults = 2 * inline
	}
	if err := s.line.Call(ctx, &x); err != nil {
		return err
	}
	x.Release()
	return nil
}

func (s *session) mpaInfo() *mpaInfo {
	p, said := s.conn().Params(), s.conn().Peer().Enhanced
	return &mpaInfo{
		Revision: int(p.Rev), CRC: p.CRC, Markers: p.SendMarkers || p.RecvMarkers, PeerToPeer: p.PeerToPeer,
		IRD: p.IRD, ORD: p.ORD, ServerIRD: int(said.IRD), ServerORD: int(said.ORD),
	}
}

func (s *session) rpcInfo() *rpcInfo {
	c := s.rdma.Conn()
	peer, said := c.Peer()
	send, recv := c.Thresholds()
	return &rpcInfo{
		Version: 1, PrivateData: said, InlineSend: send, InlineRecv: recv, Credits: c.Credits(),
		Invalidation: invalidity{Client: true, Server: peer.RemoteInvalidation, Seen: s.dial.invalidated.Load()},
		Extensions:   agreed(c.ExtensionConn()),
	}
}

func agreed(l *rpcrdma.ExtensionConn) extensions {
	if l == nil {
		return extensions{}
	}
	on := l.Extensions()
	e := extensions{Server: true, Immediate: on.Immediate, Atomics: on.Atomics, Delegation: on.Delegation}
	if e.Delegation {
		e.Counters = int(l.Peer().CounterSlots)
	}
	return e
}

// String names the active extensions.
func (e extensions) String() string {
	if !e.Server {
		return "none"
	}
	words := []string{"known"}
	if e.Immediate > 0 {
		words = append(words, fmt.Sprintf("immediate data (%d)", e.Immediate))
	}
	if e.Atomics {
		words = append(words, "atomics")
	}
	if e.Delegation {
		words = append(words, fmt.Sprintf("delegation (%d words)", e.Counters))
	}
	return strings.Join(words, ", ")
}

// print prints info as text.
func (i *info) print(w io.Writer) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-20s "+format+"\n", append([]any{name}, args...)...)
	}
	row("server", "%s (%s)", i.Server, i.Address)
	row("TLS", "%s", i.TLS)
	if i.MPA != nil {
		i.printRDMA(row)
	} else {
		row("transport", "TCP")
	}
	row("NFS versions", "%s", strings.Join(i.Versions, ", "))
	if i.V4Error != "" {
		row("NFS version 4", "%s", i.V4Error)
	}
	if i.V4 != nil {
		i.V4.print(row)
	}
	switch {
	case i.Problem != "":
		row("MOUNT", "%s", i.Problem)
	case i.Mount != "":
		row("MOUNT", "%s", i.Mount)
	}
	for _, e := range i.Exports {
		clients := strings.Join(e.Clients, " ")
		if clients == "" {
			clients = "everyone"
		}
		row("export", "%s for %s", escape(e.Path), escape(clients))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printRDMA prints what was agreed for RDMA.
func (i *info) printRDMA(row func(name, format string, args ...any)) {
	m, r := i.MPA, i.RPC
	row("MPA revision", "%d", m.Revision)
	row("CRC", "%s", onOff(m.CRC))
	row("markers", "%s", onOff(m.Markers))
	row("peer-to-peer", "%s", onOff(m.PeerToPeer))
	row("IRD, ORD", "%d, %d; of the server %d, %d", m.IRD, m.ORD, m.ServerIRD, m.ServerORD)
	row("RPC-over-RDMA", "version %d, %s", r.Version, map[bool]string{true: "with private data (RFC 8797)", false: "no private data"}[r.PrivateData])
	row("inline thresholds", "%d bytes to the server, %d from it", r.InlineSend, r.InlineRecv)
	row("credits", "%d", r.Credits)
	row("remote invalidation", "client accepts it: %s, server accepts it: %s, server did it: %s",
		yesNo(r.Invalidation.Client), yesNo(r.Invalidation.Server), yesNo(r.Invalidation.Seen))
	row("extensions", "%s", r.Extensions)
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

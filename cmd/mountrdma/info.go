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
		Short: "Show the settings negotiated with a server, and its exports",
		Long: `Show the settings negotiated with a server: MPA (revision, CRC, markers, the
number of concurrent RDMA Reads that each end serves), RPC-over-RDMA (the maximum
size of messages sent without RDMA, credits, remote invalidation, the extensions
that a mount would use), its NFS versions (3, 4.1, 4.2), and the address of MOUNT,
with the exports. For an NFSv4 server it shows the server owner, the lease time,
the limits of a session, and the exports in the NFSv4 namespace, whose paths may
differ from those of MOUNT.

Remote invalidation has three parts, because an announcement does not bind a
server: whether this client and the server announce that they accept a Send With
Invalidate, and whether the server sent one when a call allowed it. SERVER may be a
list (a,b): the server that serves now is shown.`,
		Args: a.serverArg(&srv),
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := a.queryServer(cmd.Context(), srv)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.stdout, i)
			}
			return i.printText(a.stdout)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// serverInfo describes a server. Scripts depend on its JSON.
type serverInfo struct {
	Server   string       `json:"server"`            // as in the argument
	Serving  string       `json:"serving,omitempty"` // the server of a list that serves
	Address  string       `json:"address"`           // connected to
	TLS      tlsInfo      `json:"tls"`
	Proto    string       `json:"proto"`         // rdma or tcp
	MPA      *mpaInfo     `json:"mpa,omitempty"` // nil over TCP, like RPC
	RPC      *rpcInfo     `json:"rpcrdma,omitempty"`
	Mount    string       `json:"mount,omitempty"` // address of the MOUNT service
	Exports  []exportInfo `json:"exports"`
	Problem  string       `json:"mount_error,omitempty"`
	mountErr error

	Versions []string  `json:"versions"`             // NFS versions that the server supports
	V4       *nfs4Info `json:"nfs4,omitempty"`       // queried with the highest minor version
	V4Error  string    `json:"nfs4_error,omitempty"` // why NFSv4 does not work with this server
}

type mpaInfo struct {
	Revision   int  `json:"revision"`
	CRC        bool `json:"crc"`
	Markers    bool `json:"markers"` // in one direction or both
	PeerToPeer bool `json:"peer_to_peer"`
	IRD        int  `json:"ird"`        // concurrent RDMA Reads from the server that this client serves
	ORD        int  `json:"ord"`        // RDMA Reads that this client may have outstanding
	ServerIRD  int  `json:"server_ird"` // from the server's start-up frame
	ServerORD  int  `json:"server_ord"`
}

type rpcInfo struct {
	Version      int              `json:"version"`
	PrivateData  bool             `json:"private_data"` // the server sent RFC 8797 private data
	InlineSend   int              `json:"inline_send"`  // bytes, to the server
	InlineRecv   int              `json:"inline_recv"`  // bytes, from the server
	Credits      int              `json:"credits"`
	Invalidation invalidationInfo `json:"remote_invalidation"`
	Extensions   extensionInfo    `json:"extensions"`
}

// extensionInfo is the set of extensions in use between this program and nfsrdmad.
type extensionInfo struct {
	Server     bool `json:"server"`         // the server supports extensions
	Immediate  int  `json:"immediate_data"` // maximum number of unanswered ones
	Atomics    bool `json:"atomics"`
	Delegation bool `json:"delegation"`
	Counters   int  `json:"counters"` // words in the server's memory
}

type invalidationInfo struct {
	Client bool `json:"client"` // announced by this client
	Server bool `json:"server"` // announced by the server
	Seen   bool `json:"seen"`   // the server sent a Send With Invalidate
}

type exportInfo struct {
	Path    string   `json:"path"`
	URL     string   `json:"url"`     // includes every byte of the path
	Clients []string `json:"clients"` // empty: everyone
}

// queryServer collects the facts about a server. A missing MOUNT service is part of the
// result, not an error.
func (a *app) queryServer(ctx context.Context, srv server) (*serverInfo, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
	defer cancel()
	cfg := a.mountLikeConfig()
	cfg.AnyVersion = true
	s, err := a.openSessionWith(ctx, srv, cfg)
	if err != nil {
		return nil, err
	}
	srv = srv.only(s.serverAddr())
	err = s.callWithReplyMemory(ctx)
	_, refused := errors.AsType[*oncrpc.ReplyError](err)
	if err != nil && !refused {
		return nil, firstCallError(ctx, srv.addr(), err)
	}
	i := &serverInfo{Server: s.target.addr(), Address: s.netConn().RemoteAddr().String(), TLS: s.tlsInfo(), Proto: a.proto.Word, Exports: []exportInfo{}}
	if s.target.list != "" {
		i.Serving = s.serverAddr()
	}
	if s.rdma != nil {
		i.MPA, i.RPC = s.mpaInfo(), s.rpcInfo()
	}
	if !refused {
		i.Versions = []string{"3"}
		if i.Mount, err = s.mountServiceAddr(ctx); err == nil {
			err = s.listExports(ctx)
		}
		if err != nil {
			if isCanceled(ctx) {
				return nil, err
			}
			i.Problem, i.mountErr = err.Error(), err
		}
	}
	if err := a.queryNFS4(ctx, srv, i); err != nil {
		return nil, err
	}
	if len(i.Versions) == 0 {
		return nil, firstCallError(ctx, srv.addr(), err)
	}
	for _, e := range s.exports {
		url := location{server: srv, path: cleanPath(e.Path)}
		i.Exports = append(i.Exports, exportInfo{Path: e.Path, URL: url.String(), Clients: append([]string{}, e.Clients...)})
	}
	return i, nil
}

// callWithReplyMemory sends a call that offers memory for its reply, which gives a server
// the opportunity to invalidate memory remotely.
func (s *session) callWithReplyMemory(ctx context.Context) error {
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
	p, said := s.rdmaConn().Params(), s.rdmaConn().Peer().Enhanced
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
		Invalidation: invalidationInfo{Client: true, Server: peer.RemoteInvalidation, Seen: s.invalidated.Load()},
		Extensions:   newExtensionInfo(c.ExtensionConn()),
	}
}

func newExtensionInfo(l *rpcrdma.ExtensionConn) extensionInfo {
	if l == nil {
		return extensionInfo{}
	}
	on := l.Extensions()
	e := extensionInfo{Server: true, Immediate: on.Immediate, Atomics: on.Atomics, Delegation: on.Delegation}
	if e.Delegation {
		e.Counters = int(l.Peer().CounterSlots)
	}
	return e
}

// String names the active extensions.
func (e extensionInfo) String() string {
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

// printText prints i as text.
func (i *serverInfo) printText(w io.Writer) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-20s "+format+"\n", append([]any{name}, args...)...)
	}
	if i.Serving == "" {
		row("server", "%s (%s)", i.Server, i.Address)
	} else {
		row("servers", "%s", i.Server)
		row("serving now", "%s (%s)", i.Serving, i.Address)
	}
	row("TLS", "%s", i.TLS)
	if i.MPA != nil {
		i.printRDMA(row)
	} else {
		row("transport", "TCP")
	}
	row("NFS versions", "%s", strings.Join(i.Versions, ", "))
	if i.V4Error != "" {
		row("NFSv4", "%s", i.V4Error)
	}
	if i.V4 != nil {
		i.V4.printRows(row)
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
		row("export", "%s for %s", escapePath(e.Path), escapePath(clients))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printRDMA prints the settings negotiated for RDMA.
func (i *serverInfo) printRDMA(row func(name, format string, args ...any)) {
	m, r := i.MPA, i.RPC
	row("MPA revision", "%d", m.Revision)
	row("CRC", "%s", onOff(m.CRC))
	row("markers", "%s", onOff(m.Markers))
	row("peer-to-peer", "%s", onOff(m.PeerToPeer))
	row("IRD, ORD", "%d, %d; server: %d, %d", m.IRD, m.ORD, m.ServerIRD, m.ServerORD)
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

package nfsrdma

import (
	"context"
	"log/slog"
	"time"

	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpctls"
)

// ClientConfig configures a Client. The zero value of each field is a usable
// default.
type ClientConfig struct {
	// TCP makes the calls over TCP in place of RDMA. Delegations must be nil then;
	// Inline, Credits, StandardsOnly, IWARP and Dialer have no effect.
	TCP bool

	// Connections is the number of connections to the server, over which
	// calls are spread (as nconnect of nfs(5)); 0 means 1.
	Connections int

	// MountHost and MountPort are the host and the TCP port of the server's
	// MOUNT program. If both are zero, Mount tries the connection of the NFS calls, the
	// port that the server's rpcbind names, and 20048 (nfsclient.MountSearch).
	MountHost string
	MountPort int

	// ClearMOUNT permits with TLS that MOUNT is asked in clear, if the connection of the
	// NFS calls does not serve it: the mountd of Linux has no TLS. Others on the way can
	// then see which export is mounted, and put another of the same server in its place.
	// Sec must be set, because they could change the server's list as well.
	ClearMOUNT bool

	// Sec are the flavours that the calls of an export may have: the first that the
	// export has is taken. Nil means the first in the export's list with which this
	// host can make calls: that of NFS.Cred, or one of Kerberos if Kerberos permits.
	// With flavours of Kerberos, Wrap must return a Caller that makes such calls in a
	// context (package tickets).
	Sec []uint32

	// Kerberos returns nil if the user of NFS.Cred can make calls with Kerberos, and
	// otherwise the reason for that. It is called only if Sec is nil and the export
	// prefers Kerberos. Nil means that nobody can.
	Kerberos func(ctx context.Context) error

	// NFS configures the NFS calls: their credential, sizes and patience.
	NFS nfsclient.Config

	// Inline is the length in bytes of the longest message sent without RDMA
	// (RFC 8797); 0 means 4096.
	Inline int

	// Credits is the number of calls that a connection may have under way; 0
	// means 128.
	Credits int

	// Silence is how long the server may give no sign of life while calls are
	// under way, before its connection is replaced; 0 means 60 s.
	Silence time.Duration

	// GiveUp is how long a call waits for a server that is away, before it
	// fails with oncrpc.ErrUnreachable; 0 means for ever: contexts of calls
	// bound the wait.
	GiveUp time.Duration

	// AnyVersion makes Dial succeed with a server that does not serve NFS
	// version 3. The methods of the Client then fail; Conns are of use.
	AnyVersion bool

	// Delegations, if not nil, holds the delegations of a cache over this
	// Client, such as fusefs. Close closes it. It must not be used by another
	// Client.
	Delegations *delegclient.Set

	// StandardsOnly offers the server nothing of this project's own.
	StandardsOnly bool

	// TLS, if not nil, makes all connections secure: those on RDMA by TLS below MPA,
	// which only servers of this project have, and those on TCP by RPC with TLS (RFC
	// 9289). A connection that cannot be made secure fails.
	TLS *rpctls.Client

	// IWARP configures RDMA connections. LongFPDUs, ShortFPDUs and Secure are
	// set by Dial.
	IWARP iwarp.Config

	// Dialer, if not nil, returns the dialer that makes connections of device,
	// for instance one that names the step that failed. By default device dials.
	Dialer func(device *iwarp.Device) rdma.Dialer

	// Wrap, if not nil, returns the Caller that makes the NFS calls in place of
	// next, for instance an observer that counts them and calls next.
	Wrap func(next oncrpc.Caller) oncrpc.Caller

	// Log receives a message when calls wait for a server that is away; nil
	// means slog.Default().
	Log *slog.Logger
}

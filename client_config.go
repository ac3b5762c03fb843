package nfsrdma

import (
	"context"
	"log/slog"
	"time"

	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
)

// ClientConfig configures a Client. The zero value of each field is a usable
// default.
type ClientConfig struct {
	// TCP selects TCP instead of RDMA. Delegations must then be nil;
	// Inline, Credits, StandardsOnly, IWARP and Dialer have no effect.
	TCP bool

	// Connections is the number of connections to the server, which share the calls
	// (nconnect of nfs(5)); 0 means 1.
	Connections int

	// MountHost and MountPort are the host and the TCP port of the server's
	// MOUNT program. If both are zero, Mount tries the connection of the NFS calls, the
	// port that the server's rpcbind names, and 20048 (nfsclient.MountSearch).
	MountHost string
	MountPort int

	// ClearMOUNT permits unencrypted MOUNT calls with TLS, if the connection of the NFS
	// calls does not serve MOUNT: Linux's mountd does not support TLS. An attacker on the
	// network can then see which export is mounted, and replace it by another export of
	// the server. Sec must be set, because the server's list can be modified as well.
	ClearMOUNT bool

	// Export is the path that a server of a list must let this client mount to be used. If
	// none does, Dial uses a server that does not; later, such servers are never used.
	// Empty means that any server that replies is used. With one server it has no effect.
	Export string

	// Sec are the accepted security flavors in order of preference: calls use the first
	// that the export accepts. Nil means the first in the export's list that this host can
	// use: that of NFS.Cred, or a Kerberos flavor if Kerberos returns nil. For Kerberos
	// flavors, Wrap must return a Caller that makes such calls in a security context
	// (package tickets).
	Sec []uint32

	// Kerberos returns nil if the user of NFS.Cred can make calls with Kerberos, and
	// otherwise the reason. It is called only if Sec is nil and the export prefers
	// Kerberos. Nil means that Kerberos is not available.
	Kerberos func(ctx context.Context) error

	// NFS configures the NFS calls: credential, sizes and timeouts.
	NFS nfsclient.Config

	// Inline is the maximum length in bytes of messages sent without RDMA operations
	// (RFC 8797); 0 means 4096.
	Inline int

	// Credits is the maximum number of pending calls on a connection; 0 means 128.
	Credits int

	// Silence is how long a server with pending calls may send nothing before the client
	// reconnects; 0 means 60 s.
	Silence time.Duration

	// GiveUp is how long a call waits for an unreachable server before it fails with
	// oncrpc.ErrUnreachable; 0 means until the call's context ends.
	GiveUp time.Duration

	// AnyVersion lets Dial connect to a server that does not serve NFS version 3. The
	// Client's calls then fail, but Conns can be used.
	AnyVersion bool

	// Delegations, if not nil, holds the delegations of a cache above this Client, such as
	// fusefs. Close closes it. No other Client may use it.
	Delegations *delegclient.Set

	// StandardsOnly disables this project's own protocol extensions.
	StandardsOnly bool

	// TLS, if not nil, encrypts all connections: RDMA connections with TLS below MPA, which
	// only servers of this project support, and TCP connections with RPC-with-TLS (RFC
	// 9289). A connection that cannot be encrypted fails.
	TLS *rpctls.Client

	// IWARP configures RDMA connections. LongFPDUs, ShortFPDUs and Secure are
	// set by Dial.
	IWARP iwarp.Config

	// Dialer, if not nil, returns the dialer for connections of device, for instance one
	// that reports the step that failed. The default is device itself.
	Dialer func(device *iwarp.Device) rdma.Dialer

	// Wrap, if not nil, returns the Caller that makes the NFS calls instead of next, for
	// instance an observer that counts them and calls next.
	Wrap func(next oncrpc.Caller) oncrpc.Caller

	// Log receives a message when calls wait for an unreachable server; nil means
	// slog.Default().
	Log *slog.Logger
}

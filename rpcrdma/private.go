package rpcrdma

import (
	"net"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// privateData returns the message that announces this end's parameters to the
// peer.
func (c *config) privateData() []byte {
	return cmpriv.Message{RemoteInvalidation: true, SendSize: c.inline, RecvSize: c.inline}.AppendTo(nil)
}

// replyThreshold returns the maximum Send length to a peer, in bytes, and
// whether the Send may invalidate the peer's memory (RFC 8797, Sections 4.1 and
// 4.2). This end always announces support for invalidation, so the peer's flag
// decides.
func (c *config) replyThreshold(privateData []byte) (longest int, invalidate bool) {
	peer, _ := cmpriv.Parse(privateData)
	return min(c.inline, peer.RecvSize), peer.RemoteInvalidation
}

// peerOf describes the peer of a request.
func peerOf(req rdma.ConnRequest) oncrpc.Peer {
	return oncrpc.Peer{Addr: addrPort(req.RemoteAddr()), Network: "rdma", Security: securityOf(req)}
}

// securityOf returns the transport security below a connection or a request, or nil. An iWARP
// connection itself is not aware of it.
func securityOf(conn any) *oncrpc.Security {
	below, ok := conn.(interface{ NetConn() net.Conn })
	if !ok {
		return nil
	}
	if s, ok := below.NetConn().(oncrpc.SecureConn); ok {
		return s.Security()
	}
	return nil
}

// addrPort returns a peer's address, or the zero value if its network is not
// TCP.
func addrPort(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		ap := tcp.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	return netip.AddrPort{}
}

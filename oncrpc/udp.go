package oncrpc

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// MaxPacket is the maximum length in bytes of a call or reply over UDP, the default in
// RPC libraries.
const MaxPacket = 8800

// A UDP source address can be forged, and replies longer than their calls would amplify
// an attacker's traffic. The bytes by which replies exceed their calls may therefore not
// exceed excessRate, with a burst for honest callers. A call above the limit gets no
// reply; the caller retransmits it or uses TCP. A reply that is not longer than its call,
// such as a program's port, is always sent.
const (
	excessRate  = 16 << 10 // bytes per second
	ExcessBurst = 64 << 10 // bytes
)

// maxPackets bounds the calls that one Packets serves concurrently. Further calls are
// dropped; their callers retransmit them.
const maxPackets = 64

// Packets receives calls over UDP, one datagram each (RFC 5531, Section 10). A reply is
// sent from the address at which its call arrived, because callers require that.
type Packets struct {
	*net.UDPConn

	// Trace, if not nil, returns a Trace for each arriving call.
	Trace func() Trace

	localAddr netip.AddrPort
	slots     chan struct{}

	mu     sync.Mutex
	excess excessBudget

	serving sync.WaitGroup
	ctx     context.Context // for the calls; ends with Shutdown
	stop    context.CancelFunc
}

// ListenPackets listens on an address, host and port.
func ListenPackets(addr string) (*Packets, error) {
	c := net.ListenConfig{Control: enablePacketInfo}
	pc, err := c.ListenPacket(context.Background(), "udp", addr)
	if err != nil {
		return nil, err
	}
	udp := pc.(*net.UDPConn)
	p := &Packets{UDPConn: udp, localAddr: udp.LocalAddr().(*net.UDPAddr).AddrPort(), slots: make(chan struct{}, maxPackets)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p, nil
}

// Addr returns the socket's address.
func (p *Packets) Addr() net.Addr { return p.LocalAddr() }

// enablePacketInfo makes the kernel report the address at which each datagram
// arrives.
func enablePacketInfo(_, _ string, c syscall.RawConn) error {
	var err error
	return errors.Join(c.Control(func(fd uintptr) {
		var domain int
		if domain, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil {
			return
		}
		if domain == unix.AF_INET {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
			return
		}
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	}), err)
}

// Serve serves calls until Close or Shutdown; then it returns nil.
func (p *Packets) Serve(s Service) error {
	p.serving.Add(1) // so that Shutdown sees calls that begin now
	defer p.serving.Done()
	in, oob := make([]byte, MaxPacket), make([]byte, oobLen)
	for {
		n, oobn, _, from, err := p.ReadMsgUDPAddrPort(in, oob)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case p.slots <- struct{}{}:
		default:
			continue
		}
		call, local := bytes.Clone(in[:n]), arrivalAddr(oob[:oobn])
		p.serving.Go(func() {
			defer func() { <-p.slots }()
			p.serveDatagram(s, call, local, from)
		})
	}
}

// serveDatagram serves one call.
func (p *Packets) serveDatagram(s Service, call []byte, local netip.Addr, from netip.AddrPort) {
	peer := Peer{
		Network: "udp",
		Addr:    netip.AddrPortFrom(from.Addr().Unmap(), from.Port()),
		Local:   netip.AddrPortFrom(local.Unmap(), p.localAddr.Port()),
	}
	req := Request{Msg: call, Peer: &peer, MaxReply: MaxPacket, MaxWhole: MaxPacket}
	var rep Reply
	if p.Trace != nil {
		rep.Trace = p.Trace()
	}
	defer rep.EndTrace()
	if !s.Serve(p.ctx, &req, &rep) {
		return
	}
	p.mu.Lock()
	may := p.excess.allowReply(len(rep.Head)-len(call), time.Now())
	p.mu.Unlock()
	if may {
		// A caller without a reply retransmits. The write fails for a broadcast call,
		// because the kernel does not send from a broadcast address.
		_, _, _ = p.WriteMsgUDPAddrPort(rep.Head, sourceAddrMessage(local), from)
	}
}

// Shutdown stops the service: it accepts no more calls, and waits for those in flight. If
// ctx ends first, Shutdown cancels the handlers' context and returns the cause, without
// waiting for them.
func (p *Packets) Shutdown(ctx context.Context) error {
	p.Close()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		p.serving.Wait()
	}()
	defer p.stop()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// oobLen is the size in bytes of one packet-info control message.
var oobLen = unix.CmsgSpace(unix.SizeofInet6Pktinfo)

// arrivalAddr returns the address at which a datagram arrived, or zero if the
// kernel does not report it.
func arrivalAddr(oob []byte) netip.Addr {
	h, data, _, err := unix.ParseOneSocketControlMessage(oob)
	switch {
	case err != nil:
	case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
		return netip.AddrFrom4([4]byte(data[8:12])) // struct in_pktinfo, ipi_addr
	case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
		return netip.AddrFrom16([16]byte(data[:16])) // struct in6_pktinfo, ipi6_addr
	}
	return netip.Addr{}
}

// sourceAddrMessage returns a control message that sends a datagram from an address, over
// any interface.
func sourceAddrMessage(a netip.Addr) []byte {
	switch {
	case a.Is4():
		return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: a.As4()})
	case a.Is6():
		return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: a.As16()})
	}
	return nil
}

// An excessBudget bounds the bytes by which replies exceed their calls: see
// excessRate.
type excessBudget struct {
	spent   int // bytes
	updated time.Time
}

// allowReply reports whether a reply that is n bytes longer than its call may be sent.
func (b *excessBudget) allowReply(n int, now time.Time) bool {
	if n <= 0 {
		return true
	}
	since := max(0, min(now.Sub(b.updated), time.Minute))
	b.spent, b.updated = max(0, b.spent-int(since.Seconds()*excessRate)), now
	if b.spent+n > ExcessBurst {
		return false
	}
	b.spent += n
	return true
}

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

// MaxPacket is the length in bytes of the longest call or reply over UDP: the default
// of RPC libraries.
const MaxPacket = 8800

// A caller over UDP may use a false source address, and replies longer than
// their calls would amplify its traffic. The bytes that replies exceed their
// calls by may therefore not pass excessRate, with a burst for honest callers.
// A call above the limit gets no reply; the caller repeats it or uses TCP. A
// reply that is not longer than its call, such as the port of a program, always
// leaves.
const (
	excessRate  = 16 << 10 // bytes a second
	ExcessBurst = 64 << 10 // bytes
)

// maxPackets bounds the calls of one Packets that are served at once. A caller whose call
// finds no place repeats it.
const maxPackets = 64

// Packets takes calls over UDP, one datagram each (RFC 5531, Section 10). A
// reply leaves from the address at which its call arrived, because callers
// insist on that.
type Packets struct {
	*net.UDPConn
	at     netip.AddrPort
	places chan struct{}

	mu     sync.Mutex
	excess budget

	serving sync.WaitGroup
	ctx     context.Context // of the calls: ends with Shutdown
	stop    context.CancelFunc
}

// ListenPackets listens at an address, host and port.
func ListenPackets(addr string) (*Packets, error) {
	c := net.ListenConfig{Control: tellArrival}
	pc, err := c.ListenPacket(context.Background(), "udp", addr)
	if err != nil {
		return nil, err
	}
	udp := pc.(*net.UDPConn)
	p := &Packets{UDPConn: udp, at: udp.LocalAddr().(*net.UDPAddr).AddrPort(), places: make(chan struct{}, maxPackets)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p, nil
}

// Addr returns the address of the socket.
func (p *Packets) Addr() net.Addr { return p.LocalAddr() }

// tellArrival makes the kernel report the address at which each datagram
// arrives.
func tellArrival(_, _ string, c syscall.RawConn) error {
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

// Serve answers calls, until Close or Shutdown; then it returns nil.
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
		case p.places <- struct{}{}:
		default:
			continue
		}
		call, local := bytes.Clone(in[:n]), arrival(oob[:oobn])
		p.serving.Go(func() {
			defer func() { <-p.places }()
			p.answer(s, call, local, from)
		})
	}
}

// answer answers one call.
func (p *Packets) answer(s Service, call []byte, local netip.Addr, from netip.AddrPort) {
	peer := Peer{
		Network: "udp",
		Addr:    netip.AddrPortFrom(from.Addr().Unmap(), from.Port()),
		Local:   netip.AddrPortFrom(local.Unmap(), p.at.Port()),
	}
	req := Request{Msg: call, Peer: &peer, MaxReply: MaxPacket, MaxWhole: MaxPacket}
	var rep Reply
	if !s.Serve(p.ctx, &req, &rep) {
		return
	}
	p.mu.Lock()
	may := p.excess.allow(len(rep.Head)-len(call), time.Now())
	p.mu.Unlock()
	if may {
		// A caller without a reply asks again. The write fails for a
		// broadcast call, because the kernel does not send from a broadcast
		// address.
		_, _, _ = p.WriteMsgUDPAddrPort(rep.Head, departure(local), from)
	}
}

// Shutdown ends the service: no call is taken any more, and those under way are finished. If ctx
// ends first, Shutdown cancels the handlers' context and returns the cause, without
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

// oobLen has room for one message about the arrival.
var oobLen = unix.CmsgSpace(unix.SizeofInet6Pktinfo)

// arrival returns the address at which a datagram arrived, or zero if the
// kernel does not report it.
func arrival(oob []byte) netip.Addr {
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

// departure makes a datagram leave from an address, by any interface.
func departure(a netip.Addr) []byte {
	switch {
	case a.Is4():
		return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: a.As4()})
	case a.Is6():
		return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: a.As16()})
	}
	return nil
}

// A budget bounds the bytes by which replies exceed their calls: see
// excessRate.
type budget struct {
	spent int // bytes
	as    time.Time
}

// allow reports whether a reply that is n bytes longer than its call may leave.
func (b *budget) allow(n int, now time.Time) bool {
	if n <= 0 {
		return true
	}
	since := max(0, min(now.Sub(b.as), time.Minute))
	b.spent, b.as = max(0, b.spent-int(since.Seconds()*excessRate)), now
	if b.spent+n > ExcessBurst {
		return false
	}
	b.spent += n
	return true
}

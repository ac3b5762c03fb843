package roce

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// A UDPWire is a port on UDP sockets: RoCEv2 without privileges.
//
// The ICRC covers the IP header, most of which such a socket does not expose.
// Sent packets have identification 0 and DF set: Linux does that on a socket
// that has no peer and forbids fragmentation. For packets received over IPv4,
// the ICRC yields these two fields (Datagram.Unseen). Packets leave from port
// 4791, so that routers that spread flows by port keep all of a UDPWire's flows
// on one path.
type UDPWire struct {
	addr  netip.Addr
	iface net.Interface
	main  *udpSocket

	deliverMu sync.Mutex // held while datagrams are delivered

	mu      sync.Mutex
	deliver func([]Datagram)
	groups  map[netip.Addr]*udpSocket
	readers sync.WaitGroup
	closed  bool
	ended   chan error // why a reader ended; capacity 1
}

// ListenUDP opens the port at a local address. The address must not be the
// unspecified one, because the ICRC covers it.
func ListenUDP(addr netip.Addr) (*UDPWire, error) {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast() {
		return nil, fmt.Errorf("roce: %v is no address of a port", addr)
	}
	iface, err := interfaceOf(addr)
	if err != nil {
		return nil, err
	}
	w := &UDPWire{addr: addr, iface: *iface, groups: map[netip.Addr]*udpSocket{}, ended: make(chan error, 1)}
	if w.main, err = openUDP(addr, iface, false); err != nil {
		return nil, fmt.Errorf("roce: UDP port %d of %v: %w", packet.Port, addr, explainBusy(err))
	}
	return w, nil
}

// explainBusy adds to an address-in-use error which program may use the port.
func explainBusy(err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("%w: another program or the kernel's RoCE (rdma_rxe) uses the port; stop it", err)
	}
	return err
}

// interfaceOf returns the network interface that has a local address.
func interfaceOf(addr netip.Addr) (*net.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for i := range all {
		addrs, err := all[i].Addrs()
		if err != nil {
			return nil, err
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			local := err == nil && p.Addr() == addr.WithZone("")
			if loopback := addr.Is4() && addr.IsLoopback(); loopback { // 127.0.0.0/8 is local
				local = err == nil && p.Contains(addr)
			}
			if local && (addr.Zone() == "" || addr.Zone() == all[i].Name) {
				return &all[i], nil
			}
		}
	}
	return nil, fmt.Errorf("roce: no network interface has the address %v", addr)
}

// LocalAddr returns the source address for packets to another address.
func LocalAddr(to netip.Addr) (netip.Addr, error) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, packet.Port)))
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}

// Addr returns the port's address.
func (w *UDPWire) Addr() netip.Addr { return w.addr }

// MaxBytes returns the maximum datagram length on the network interface.
func (w *UDPWire) MaxBytes() int {
	ip := packet.IPv4Len
	if w.addr.Is6() {
		ip = packet.GRHLen
	}
	return min(w.iface.MTU, 1<<16-1) - ip - packet.UDPLen
}

// Send sends datagrams with as few system calls as possible.
func (w *UDPWire) Send(d []Datagram) (int, error) { return w.main.sendDatagrams(d) }

// Serve passes received datagrams to deliver until Close.
func (w *UDPWire) Serve(deliver func([]Datagram)) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return rdma.ErrClosed
	}
	w.deliver = deliver
	w.startReader(w.main)
	for _, s := range w.groups {
		w.startReader(s)
	}
	w.mu.Unlock()
	err := <-w.ended
	w.Close()
	w.readers.Wait()
	return err
}

// startReader starts a socket's reader. The caller holds the wire's lock.
func (w *UDPWire) startReader(s *udpSocket) {
	w.readers.Go(func() {
		for {
			in, err := s.receiveDatagrams()
			if err != nil {
				w.recordEnd(s, err)
				return
			}
			w.deliverMu.Lock()
			w.deliver(in)
			w.deliverMu.Unlock()
		}
	})
}

// recordEnd records a socket's error, which ends the wire, unless the socket's group was left.
func (w *UDPWire) recordEnd(s *udpSocket, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		err = rdma.ErrClosed
	} else if s != w.main && w.groups[s.local] != s {
		return
	}
	select {
	case w.ended <- err:
	default:
	}
}

// Join receives messages to a group, on a separate socket: the main socket is
// bound to the port's address, so that each packet's destination is known.
func (w *UDPWire) Join(group netip.Addr) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return rdma.ErrClosed
	}
	if w.groups[group] != nil {
		return nil
	}
	s, err := openUDP(group, &w.iface, true)
	if err != nil {
		return fmt.Errorf("roce: group %v on %v: %w", group, w.addr, err)
	}
	w.groups[group] = s
	if w.deliver != nil {
		w.startReader(s)
	}
	return nil
}

// Leave ends Join.
func (w *UDPWire) Leave(group netip.Addr) error {
	w.mu.Lock()
	s := w.groups[group]
	delete(w.groups, group)
	w.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.close()
}

// Close ends Serve and Send. It may be called twice.
func (w *UDPWire) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	all := []*udpSocket{w.main}
	for _, s := range w.groups {
		all = append(all, s)
	}
	serving := w.deliver != nil
	w.mu.Unlock()
	var failed []error
	for _, s := range all {
		failed = append(failed, s.close())
	}
	if !serving {
		w.ended <- rdma.ErrClosed
	}
	return errors.Join(failed...)
}

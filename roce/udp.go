package roce

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// A UDPWire is a port on sockets of UDP: RoCEv2 with no privilege.
//
// The ICRC covers IP's header, of which such a socket shows little. What it
// sends has identification 0 and DF set, as Linux does for a socket with no
// peer whose packets are not to be cut; of what it receives over IPv4 these two
// are found by the ICRC (Datagram.Unseen). Packets leave from port 4791, so
// that all flows of a port take one way where routers spread them by port.
type UDPWire struct {
	addr  netip.Addr
	iface net.Interface
	main  *udpSocket

	handing sync.Mutex // held while datagrams are handed over

	mu      sync.Mutex
	deliver func([]Datagram)
	groups  map[netip.Addr]*udpSocket
	readers sync.WaitGroup
	closed  bool
	ended   chan error // why a reader has ended; room for one
}

// ListenUDP opens the port of a local address, which is not the unspecified one:
// the ICRC covers it.
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
		return nil, fmt.Errorf("roce: UDP port %d of %v: %w", packet.Port, addr, busy(err))
	}
	return w, nil
}

// busy says who may have the port.
func busy(err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("%w: another program has it, or the kernel's own RoCE (rdma_rxe)", err)
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
			if loopback := addr.Is4() && addr.IsLoopback(); loopback { // all of 127.0.0.0/8 is local
				local = err == nil && p.Contains(addr)
			}
			if local && (addr.Zone() == "" || addr.Zone() == all[i].Name) {
				return &all[i], nil
			}
		}
	}
	return nil, fmt.Errorf("roce: no network interface has the address %v", addr)
}

// LocalAddr returns the address that packets to another leave from.
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

// MaxOctets returns what the network interface leaves room for.
func (w *UDPWire) MaxOctets() int {
	ip := packet.IPv4Len
	if w.addr.Is6() {
		ip = packet.GRHLen
	}
	return min(w.iface.MTU, 1<<16-1) - ip - packet.UDPLen
}

// Send hands datagrams over by as few system calls as it takes.
func (w *UDPWire) Send(d []Datagram) (int, error) { return w.main.send(d) }

// Serve hands what comes in to deliver until Close.
func (w *UDPWire) Serve(deliver func([]Datagram)) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return rdma.ErrClosed
	}
	w.deliver = deliver
	w.read(w.main)
	for _, s := range w.groups {
		w.read(s)
	}
	w.mu.Unlock()
	err := <-w.ended
	w.Close()
	w.readers.Wait()
	return err
}

// read, with the wire locked, starts a socket's reader.
func (w *UDPWire) read(s *udpSocket) {
	w.readers.Go(func() {
		for {
			in, err := s.receive()
			if err != nil {
				w.end(s, err)
				return
			}
			w.handing.Lock()
			w.deliver(in)
			w.handing.Unlock()
		}
	})
}

// end says why the wire ends with a socket, unless that was let go.
func (w *UDPWire) end(s *udpSocket, err error) {
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

// Join brings what is sent to a group, by a socket of its own: the other one is
// bound to the port's address, so that it is known which one a packet had.
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
		w.read(s)
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

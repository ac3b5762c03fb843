package roce

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// An mmsg is a message of sendmmsg(2) and recvmmsg(2).
type mmsg struct {
	hdr unix.Msghdr
	n   uint32 // bytes of a received message
}

// controlLen has room for TTL or hop limit, and ToS or traffic class.
var controlLen = 2 * unix.CmsgSpace(4)

// messages are the messages of one system call.
type messages struct {
	msgs    []mmsg
	iov     []unix.Iovec
	names   []unix.RawSockaddrInet6 // which has room for IPv4's
	control []byte
	mem     []byte // of received messages
	size    int    // bytes for each
	in      []Datagram
	scope   uint32 // the interface, for addresses that are valid only there

	// The system call as one function, made once so that calls do not allocate:
	// its number of messages, how many it has done, and its error.
	try   func(fd uintptr) (done bool)
	n     int
	done  int
	errno unix.Errno
}

// init makes room for n messages of a system call; received messages have size
// bytes each.
func (m *messages) init(call uintptr, n, size int, scope uint32) {
	m.scope = scope
	m.try = func(fd uintptr) bool { m.call(call, fd); return m.errno != unix.EAGAIN }
	m.msgs = make([]mmsg, n)
	m.iov = make([]unix.Iovec, n)
	m.names = make([]unix.RawSockaddrInet6, n)
	m.control = make([]byte, n*controlLen)
	m.size, m.mem = size, make([]byte, n*size)
	m.in = make([]Datagram, n)
	for i := range m.msgs {
		h := &m.msgs[i].hdr
		h.Name = (*byte)(unsafe.Pointer(&m.names[i]))
		h.Iov = &m.iov[i]
		h.SetIovlen(1)
		h.Control = &m.control[i*controlLen]
		if size > 0 {
			m.iov[i].Base = &m.mem[i*size]
		}
	}
}

// load makes messages of datagrams, as many as fit.
func (m *messages) load(d []Datagram) {
	m.n = min(len(d), len(m.msgs))
	for i := range d[:m.n] {
		h := &m.msgs[i].hdr
		h.Namelen = m.setName(i, d[i].Dst)
		m.iov[i].Base = &d[i].Bytes[0]
		m.iov[i].SetLen(len(d[i].Bytes))
		level, hops, class := int32(unix.IPPROTO_IPV6), int32(unix.IPV6_HOPLIMIT), int32(unix.IPV6_TCLASS)
		if d[i].Dst.Is4() {
			level, hops, class = unix.IPPROTO_IP, unix.IP_TTL, unix.IP_TOS
		}
		c := m.control[i*controlLen:][:controlLen]
		setControl(c, level, hops, d[i].HopLimit)
		setControl(c[controlLen/2:], level, class, d[i].TrafficClass)
		h.SetControllen(controlLen)
	}
}

// setName sets the destination and returns its length.
func (m *messages) setName(i int, to packet.GID) uint32 {
	port := [2]byte{packet.Port >> 8, packet.Port & 0xff}
	if to.Is4() {
		sa := (*unix.RawSockaddrInet4)(unsafe.Pointer(&m.names[i]))
		*sa = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: [4]byte(to[12:])}
		*(*[2]byte)(unsafe.Pointer(&sa.Port)) = port
		return unix.SizeofSockaddrInet4
	}
	m.names[i] = unix.RawSockaddrInet6{Family: unix.AF_INET6, Addr: to}
	if a := addrOf(to); a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() {
		m.names[i].Scope_id = m.scope
	}
	*(*[2]byte)(unsafe.Pointer(&m.names[i].Port)) = port
	return unix.SizeofSockaddrInet6
}

// setControl makes one control message of an int.
func setControl(b []byte, level, kind int32, value uint8) {
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = level, kind
	h.SetLen(unix.CmsgLen(4))
	binary.NativeEndian.PutUint32(b[unix.CmsgLen(0):], uint32(value))
}

// unload drops the references to the loaded data, which other code owns.
func (m *messages) unload() {
	for i := range m.iov {
		m.iov[i].Base = nil
	}
}

// ready makes room for received messages.
func (m *messages) ready() {
	m.n = len(m.msgs)
	for i := range m.msgs {
		h := &m.msgs[i].hdr
		h.Namelen = uint32(unsafe.Sizeof(m.names[i]))
		h.SetControllen(controlLen)
		h.Flags = 0
		m.iov[i].SetLen(m.size)
	}
}

// call is sendmmsg or recvmmsg, without waiting.
func (m *messages) call(number, fd uintptr) {
	for {
		done, _, errno := unix.Syscall6(number, fd, uintptr(unsafe.Pointer(&m.msgs[0])), uintptr(m.n), unix.MSG_DONTWAIT, 0, 0)
		m.done, m.errno = int(done), errno
		if errno != 0 {
			m.done = 0
		}
		if errno != unix.EINTR {
			return
		}
	}
}

// datagrams returns the first n messages, which a socket with the local address
// has received.
func (m *messages) datagrams(n int, local netip.Addr) []Datagram {
	all := m.in[:0]
	for i := range m.msgs[:n] {
		h := &m.msgs[i].hdr
		if h.Flags&unix.MSG_TRUNC != 0 {
			m.msgs[i].n = 0 // longer than any packet, so not a complete one
		}
		d := Datagram{Unseen: true, Bytes: m.mem[i*m.size:][:m.msgs[i].n]}
		d.Dst = gidOf(local)
		d.Src, d.SrcPort = m.source(i)
		m.readControl(&d, m.control[i*controlLen:][:h.Controllen])
		all = append(all, d)
	}
	return all
}

// source returns the source address and port of a received message.
func (m *messages) source(i int) (packet.GID, uint16) {
	p := (*[2]byte)(unsafe.Pointer(&m.names[i].Port)) // IPv4's port is at the same place
	port := binary.BigEndian.Uint16(p[:])
	if m.names[i].Family == unix.AF_INET {
		sa := (*unix.RawSockaddrInet4)(unsafe.Pointer(&m.names[i]))
		return gidOf(netip.AddrFrom4(sa.Addr)), port
	}
	return m.names[i].Addr, port
}

// readControl reads hop limit and traffic class. The kernel gives ToS as one
// byte, the others as an int.
func (m *messages) readControl(d *Datagram, b []byte) {
	for len(b) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		n, data := int(h.Len), unix.CmsgLen(0)
		if n <= data || n > len(b) {
			return
		}
		value := b[data]
		if n >= unix.CmsgLen(4) {
			value = uint8(binary.NativeEndian.Uint32(b[data:]))
		}
		switch {
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_TTL, h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_HOPLIMIT:
			d.HopLimit = value
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_TOS, h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_TCLASS:
			d.TrafficClass = value
		}
		b = b[min(len(b), unix.CmsgSpace(n-data)):]
	}
}

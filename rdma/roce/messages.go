package roce

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// An mmsg is a struct mmsghdr for sendmmsg(2) and recvmmsg(2).
type mmsg struct {
	hdr unix.Msghdr
	n   uint32 // length of a received message in bytes
}

// controlLen is the space for TTL or hop limit, and ToS or traffic class.
var controlLen = 2 * unix.CmsgSpace(4)

// An mmsgBatch holds the messages for one system call.
type mmsgBatch struct {
	msgs      []mmsg
	iov       []unix.Iovec
	names     []unix.RawSockaddrInet6 // large enough for IPv4's
	control   []byte
	mem       []byte // memory for received messages
	bufSize   int    // bytes per message in mem
	datagrams []Datagram
	scope     uint32 // the interface, for addresses that are valid only there

	// The system call as a function, created once so that calls do not
	// allocate, with the number of messages, the number processed, and the
	// error.
	tryCall   func(fd uintptr) (done bool)
	count     int
	doneCount int
	errno     unix.Errno
}

// init allocates n messages for a system call; received messages have size
// bytes each.
func (m *mmsgBatch) init(call uintptr, n, size int, scope uint32) {
	m.scope = scope
	m.tryCall = func(fd uintptr) bool { m.callSystem(call, fd); return m.errno != unix.EAGAIN }
	m.msgs = make([]mmsg, n)
	m.iov = make([]unix.Iovec, n)
	m.names = make([]unix.RawSockaddrInet6, n)
	m.control = make([]byte, n*controlLen)
	m.bufSize, m.mem = size, make([]byte, n*size)
	m.datagrams = make([]Datagram, n)
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

// loadDatagrams prepares messages that send the datagrams, as many as fit.
func (m *mmsgBatch) loadDatagrams(d []Datagram) {
	m.count = min(len(d), len(m.msgs))
	for i := range d[:m.count] {
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
func (m *mmsgBatch) setName(i int, to packet.GID) uint32 {
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

// setControl writes one control message with an int.
func setControl(b []byte, level, kind int32, value uint8) {
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = level, kind
	h.SetLen(unix.CmsgLen(4))
	binary.NativeEndian.PutUint32(b[unix.CmsgLen(0):], uint32(value))
}

// dropReferences drops the references to the loaded data, which the caller
// owns.
func (m *mmsgBatch) dropReferences() {
	for i := range m.iov {
		m.iov[i].Base = nil
	}
}

// prepareReceive resets the messages for receiving.
func (m *mmsgBatch) prepareReceive() {
	m.count = len(m.msgs)
	for i := range m.msgs {
		h := &m.msgs[i].hdr
		h.Namelen = uint32(unsafe.Sizeof(m.names[i]))
		h.SetControllen(controlLen)
		h.Flags = 0
		m.iov[i].SetLen(m.bufSize)
	}
}

// callSystem calls sendmmsg or recvmmsg, without waiting.
func (m *mmsgBatch) callSystem(number, fd uintptr) {
	for {
		done, _, errno := unix.Syscall6(number, fd, uintptr(unsafe.Pointer(&m.msgs[0])), uintptr(m.count), unix.MSG_DONTWAIT, 0, 0)
		m.doneCount, m.errno = int(done), errno
		if errno != 0 {
			m.doneCount = 0
		}
		if errno != unix.EINTR {
			return
		}
	}
}

// receivedDatagrams returns the first n messages, which a socket with the local address
// has received.
func (m *mmsgBatch) receivedDatagrams(n int, local netip.Addr) []Datagram {
	all := m.datagrams[:0]
	for i := range m.msgs[:n] {
		h := &m.msgs[i].hdr
		if h.Flags&unix.MSG_TRUNC != 0 {
			m.msgs[i].n = 0 // longer than any packet, so not a complete one
		}
		d := Datagram{Unseen: true, Bytes: m.mem[i*m.bufSize:][:m.msgs[i].n]}
		d.Dst = gidOf(local)
		d.Src, d.SrcPort = m.sourceOf(i)
		m.readControl(&d, m.control[i*controlLen:][:h.Controllen])
		all = append(all, d)
	}
	return all
}

// sourceOf returns a received message's source address and port.
func (m *mmsgBatch) sourceOf(i int) (packet.GID, uint16) {
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
func (m *mmsgBatch) readControl(d *Datagram, b []byte) {
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

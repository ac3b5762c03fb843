package rpctls

import (
	"encoding/binary"
	"errors"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Names from linux/tls.h and linux/sock_diag.h that package unix does not have.
const (
	tlsSetRecordType = 1
	tlsGetRecordType = 2

	memSendBuffer = 3 // indexes in SO_MEMINFO
	memSendQueued = 5
	memPlaces     = 9
)

// kernelModule is the name of the kernel's TLS upper layer protocol and its module.
const kernelModule = "tls"

var errNoTCP = errors.New("rpctls: not a kernel TCP connection")

// rawTCP returns nc's socket.
func rawTCP(nc net.Conn) (*net.TCPConn, syscall.RawConn, error) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nil, nil, errNoTCP
	}
	raw, err := tcp.SyscallConn()
	return tcp, raw, err
}

// probeKernel returns nil if the kernel has a module. The kernel finds, and for root
// loads, the module before it checks that the socket is connected.
func probeKernel(module string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_ULP, module); err != nil && err != unix.ENOTCONN {
		return err
	}
	return nil
}

// setOption calls setsockopt with a byte slice.
func setOption(fd uintptr, level, name int, value []byte) error {
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, fd, uintptr(level), uintptr(name), uintptr(unsafe.Pointer(unsafe.SliceData(value))), uintptr(len(value)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// getOption calls getsockopt, which must fill value.
func getOption(fd uintptr, level, name int, value []byte) error {
	n := uint32(len(value))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, uintptr(level), uintptr(name), uintptr(unsafe.Pointer(unsafe.SliceData(value))), uintptr(unsafe.Pointer(&n)), 0)
	switch {
	case errno != 0:
		return errno
	case int(n) < len(value):
		return unix.EINVAL
	}
	return nil
}

// sequenceOf returns a direction's next record number.
func sequenceOf(raw syscall.RawConn, suite uint16, d direction) (n uint64, err error) {
	info := make([]byte, infoLen(kernelSuites[suite]))
	defer clear(info) // the key
	binary.NativeEndian.PutUint16(info[2:], kernelSuites[suite].cipher)
	if cerr := raw.Control(func(fd uintptr) { err = getOption(fd, unix.SOL_TLS, int(d), info) }); cerr != nil {
		return 0, cerr
	}
	return binary.BigEndian.Uint64(info[len(info)-sequenceLen:]), err
}

// sendQueue returns the memory that a socket's unacknowledged TCP data uses, in bytes,
// and its limit.
func sendQueue(raw syscall.RawConn) (queued, most int) {
	var mem [4 * memPlaces]byte
	_ = raw.Control(func(fd uintptr) { _ = getOption(fd, unix.SOL_SOCKET, unix.SO_MEMINFO, mem[:]) })
	at := func(place int) int { return int(binary.NativeEndian.Uint32(mem[4*place:])) }
	return at(memSendQueued), at(memSendBuffer)
}

// sendRecord sends a record that is not data.
func sendRecord(raw syscall.RawConn, kind byte, content []byte) (err error) {
	oob := make([]byte, unix.CmsgSpace(1))
	h := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(oob)))
	h.Level, h.Type = unix.SOL_TLS, tlsSetRecordType
	h.SetLen(unix.CmsgLen(1))
	oob[unix.CmsgLen(0)] = kind
	werr := raw.Write(func(fd uintptr) bool {
		_, err = unix.SendmsgN(int(fd), content, oob, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return err != unix.EAGAIN
	})
	return errors.Join(werr, err)
}

// nextRecord reads the rest of the next record, which may have any type, into p.
func nextRecord(raw syscall.RawConn, p []byte) (kind byte, n int, err error) {
	oob := make([]byte, unix.CmsgSpace(1))
	var used int
	rerr := raw.Read(func(fd uintptr) bool {
		n, used, _, _, err = unix.Recvmsg(int(fd), p, oob, unix.MSG_DONTWAIT)
		return err != unix.EAGAIN
	})
	if err = errors.Join(rerr, err); err != nil {
		return 0, 0, err
	}
	list, err := unix.ParseSocketControlMessage(oob[:used])
	if err != nil {
		return 0, 0, err
	}
	for _, m := range list {
		if m.Header.Level == unix.SOL_TLS && m.Header.Type == tlsGetRecordType && len(m.Data) > 0 {
			return m.Data[0], n, nil
		}
	}
	return 0, 0, unix.EIO
}

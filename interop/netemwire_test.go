//go:build interop

package interop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// These values say how the wire treats packets: tc-netem(8)'s "loss 1% delay
// 2ms 1ms reorder 25%". Not all kernels have netem, and on a veth pair netem
// would lose the unsegmented packets that TCP leaves to a card, 64 KiB at a
// time. A TUN device gives the segments themselves.
const (
	badWireLoss   = 0.01
	badWireEarly  = 0.25 // share not delayed, which overtakes other packets
	badWireDelay  = 2 * time.Millisecond
	badWireJitter = time.Millisecond // more or less than badWireDelay
)

// A badWire joins two network namespaces by an unreliable wire.
//
//	namespace 0          this process          namespace 1
//	10.9.0.1 tun0 ---- lose, delay, reorder ---- tun0 10.9.0.2
type badWire struct {
	t    *testing.T
	ends [2]badEnd
	work sync.WaitGroup // packets in transit, and the goroutines that read them

	mu                       sync.Mutex
	packets, lost, overtaken int
	connections              map[[2]uint32]bool // source port and initial sequence number of each SYN
	failed                   error
	random                   *rand.Rand
}

// A badEnd is a namespace and the TUN device in it.
type badEnd struct {
	ns, dev   *os.File
	delivered int // number of the latest delivered packet
}

// newBadWire makes namespaces that reach each other until the test ends.
func newBadWire(t *testing.T, mtu uint32) *badWire {
	needRoot(t)
	w := &badWire{t: t, connections: map[[2]uint32]bool{}, random: rand.New(rand.NewPCG(uint64(mtu), 1))}
	for i := range w.ends {
		made := make(chan error)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread is of no other use
			var err error
			w.ends[i].ns, w.ends[i].dev, err = badWireNamespace(w.addrOf(i), mtu)
			made <- err
		}()
		require.NoError(t, <-made)
	}
	for i := range w.ends {
		w.work.Add(1)
		go w.carryPackets(i, mtu)
	}
	t.Cleanup(w.closeWire)
	return w
}

// addrOf is the address in a namespace.
func (w *badWire) addrOf(end int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 9, 0, byte(end + 1)})
}

// badWireNamespace moves the thread to a network namespace with a TUN device.
func badWireNamespace(addr netip.Addr, mtu uint32) (ns, dev *os.File, err error) {
	if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, nil, err
	}
	if ns, err = os.Open("/proc/thread-self/ns/net"); err != nil {
		return nil, nil, err
	}
	// Nonblocking, so that Close ends a Read.
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	if err = netDevice(fd, "tun0", unix.IFF_TUN, addr, mtu); err != nil {
		return nil, nil, err
	}
	return ns, os.NewFile(uintptr(fd), "tun0"), nil
}

// netDevice makes a TUN or TAP device of fd, with an address in a /24.
func netDevice(fd int, name string, mode uint16, addr netip.Addr, mtu uint32) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	var failed []error
	do := func(fd int, request uint, set func(*unix.Ifreq) error) {
		r, err := unix.NewIfreq(name)
		if err == nil {
			err = set(r)
		}
		if err == nil {
			err = unix.IoctlIfreq(fd, request, r)
		}
		failed = append(failed, err)
	}
	do(fd, unix.TUNSETIFF, func(r *unix.Ifreq) error { r.SetUint16(mode | unix.IFF_NO_PI); return nil })
	do(s, unix.SIOCSIFMTU, func(r *unix.Ifreq) error { r.SetUint32(mtu); return nil })
	do(s, unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(addr.AsSlice()) })
	do(s, unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 0}) })
	do(s, unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil })
	return errors.Join(failed...)
}

// carryPackets takes packets from one end to the other.
func (w *badWire) carryPackets(from int, mtu uint32) {
	defer w.work.Done()
	b := make([]byte, mtu)
	for number := 1; ; number++ {
		n, err := w.ends[from].dev.Read(b)
		if err != nil {
			w.recordError(err)
			return
		}
		delay, lost := w.packetFate(b[:n])
		if lost {
			continue
		}
		packet := append([]byte(nil), b[:n]...)
		w.work.Add(1)
		time.AfterFunc(delay, func() { w.deliverPacket(1-from, number, packet) })
	}
}

// packetFate decides the delay or the loss of a packet.
func (w *badWire) packetFate(packet []byte) (delay time.Duration, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.packets++
	w.countConnection(packet)
	switch chance := w.random.Float64(); {
	case chance < badWireLoss:
		w.lost++
		return 0, true
	case chance < badWireLoss+badWireEarly:
		return 0, false
	}
	return badWireDelay - badWireJitter + time.Duration(w.random.Int64N(int64(2*badWireJitter))), false
}

// countConnection counts each requested connection once.
func (w *badWire) countConnection(packet []byte) {
	const protocol, syn, ack = 9, 0x02, 0x10
	if len(packet) < 40 || packet[0]>>4 != 4 || packet[protocol] != unix.IPPROTO_TCP {
		return
	}
	tcp := packet[4*(packet[0]&15):]
	if len(tcp) >= 20 && tcp[13]&(syn|ack) == syn {
		port := uint32(binary.BigEndian.Uint16(tcp))
		w.connections[[2]uint32{port, binary.BigEndian.Uint32(tcp[4:])}] = true
	}
}

func (w *badWire) deliverPacket(to, number int, packet []byte) {
	defer w.work.Done()
	if _, err := w.ends[to].dev.Write(packet); err != nil {
		w.recordError(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if number < w.ends[to].delivered {
		w.overtaken++
	}
	w.ends[to].delivered = max(number, w.ends[to].delivered)
}

// recordError keeps an error of the wire itself, except that the wire is closed.
func (w *badWire) recordError(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !errors.Is(err, os.ErrClosed) {
		w.failed = err
	}
}

// inNamespace returns a program that runs the given program in one of the
// namespaces.
func (w *badWire) inNamespace(end int, program string) string {
	file := filepath.Join(w.t.TempDir(), filepath.Base(program))
	script := fmt.Sprintf("#!/bin/sh\nexec nsenter --net=/proc/%d/fd/%d %s \"$@\"\n", os.Getpid(), w.ends[end].ns.Fd(), program)
	require.NoError(w.t, os.WriteFile(file, []byte(script), 0o755))
	return file
}

// String returns the wire's statistics.
func (w *badWire) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("%d packets, %d lost, %d overtaken, %d connections", w.packets, w.lost, w.overtaken, len(w.connections))
}

func (w *badWire) closeWire() {
	for _, e := range w.ends {
		e.dev.Close()
	}
	w.work.Wait()
	for _, e := range w.ends {
		e.ns.Close()
	}
	require.NoError(w.t, w.failed, "the wire")
}

package iwarp

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// startServer starts a benchmark's server, and returns its address and process.
func startServer(b *testing.B, kind string) (addr string, pid int) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"="+kind)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(b, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait()
	})
	addr, err = bufio.NewReader(stdout).ReadString('\n')
	require.NoError(b, err)
	return strings.TrimSpace(addr), cmd.Process.Pid
}

// cpuOf returns another process's processor time.
func cpuOf(b *testing.B, pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(b, err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		require.NoError(b, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// cpuHere returns this process's processor time.
func cpuHere(b *testing.B) time.Duration {
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measureCPU runs loop and reports both ends' processor time.
func measureCPU(b *testing.B, pid int, loop func()) {
	here, there := cpuHere(b), cpuOf(b, pid)
	loop()
	here, there = cpuHere(b)-here, cpuOf(b, pid)-there
	b.ReportMetric(float64(here.Nanoseconds())/1e3/float64(b.N), "client-us/op")
	b.ReportMetric(float64(there.Nanoseconds())/1e3/float64(b.N), "server-us/op")
}

// BenchmarkTCPStream is the baseline: a stream from a mapping, into 16 rotating
// 1 MiB buffers. BenchmarkTCPCalls sends 128 bytes for 4 KiB, one call at a
// time.
func BenchmarkTCPStream(b *testing.B) {
	addr, pid := startServer(b, "tcp stream")
	c, err := net.Dial("tcp", addr)
	require.NoError(b, err)
	defer c.Close()
	sink := make([]byte, 16<<20)
	b.SetBytes(1 << 20)
	measureCPU(b, pid, func() {
		for i := 0; b.Loop(); i++ {
			_, err := io.ReadFull(c, sink[i%16<<20:][:1<<20])
			require.NoError(b, err)
		}
	})
}

func BenchmarkTCPCalls(b *testing.B) {
	addr, pid := startServer(b, "tcp calls")
	c, err := net.Dial("tcp", addr)
	require.NoError(b, err)
	defer c.Close()
	call, sink := make([]byte, callLen), make([]byte, 4096)
	measureCPU(b, pid, func() {
		for b.Loop() {
			_, _ = c.Write(call)
			_, err := io.ReadFull(c, sink)
			require.NoError(b, err)
		}
	})
}

// A benchClient is the client's end. It makes len(slots) calls at a time.
type benchClient struct {
	conn      rdma.Conn
	size      int
	slots     []callSlot
	own       bool // each slot has a goroutine, like callers in a program; otherwise the reader makes the next call
	callsLeft int  // calls that the reader must still make
	pending   int
	done      chan struct{}
	closeErr  error
}

type callSlot struct {
	r        rdma.Region
	call     [1][]byte
	at       int
	returned chan struct{}
}

func newBenchClient(b *testing.B, addr string, cfg Config, size, depth int, own bool) *benchClient {
	cl := &benchClient{size: size, own: own, done: make(chan struct{}), slots: make([]callSlot, depth)}
	var err error
	cl.conn, err = deviceWith(cfg).Dial(b.Context(), addr, rdma.ConnConfig{Handler: cl, Recvs: 1 << 30})
	require.NoError(b, err)
	for i := range cl.slots {
		s := &cl.slots[i]
		s.call[0], s.returned, s.at = make([]byte, callLen), make(chan struct{}, 1), i*max(size, 4096)
		s.r, err = cl.conn.Register(patternBytes(size), rdma.RemoteWrite|rdma.Scratch)
		require.NoError(b, err)
	}
	return cl
}

// postCall makes slot i's next call.
func (cl *benchClient) postCall(i int) {
	s := &cl.slots[i]
	benchCall{slot: byte(i), stag: s.r.STag(), size: cl.size, at: s.at}.appendTo(s.call[0][:0])
	step := cl.size * len(cl.slots)
	if cl.size == 4096 {
		step = 4096 * 4099
	}
	s.at = (s.at + step) % fileSize
	_ = cl.conn.Post(rdma.WR{Op: rdma.OpSend, Data: s.call[:]})
}

func (cl *benchClient) Receive(m rdma.Recv) {
	i := m.Buf.B[0]
	m.Buf.Release()
	switch {
	case cl.own:
		cl.slots[i].returned <- struct{}{}
	case cl.callsLeft > 0:
		cl.callsLeft--
		cl.postCall(int(i))
	default:
		if cl.pending--; cl.pending == 0 {
			close(cl.done)
		}
	}
}

func (cl *benchClient) Closed(err error) { cl.closeErr = err }

// run makes n calls.
func (cl *benchClient) run(n int) {
	if !cl.own {
		first := min(n, len(cl.slots))
		cl.callsLeft, cl.pending = n-first, first
		for i := range first {
			cl.postCall(i)
		}
		<-cl.done
		return
	}
	var wg sync.WaitGroup
	for i := range cl.slots {
		wg.Go(func() {
			for range (n + i) / len(cl.slots) {
				cl.postCall(i)
				<-cl.slots[i].returned
			}
		})
	}
	wg.Wait()
}

// BenchmarkCalls measures calls between two processes: with a reply only, like
// GETATTR, and with a 4 KiB or 1 MiB RDMA Write before the reply.
func BenchmarkCalls(b *testing.B) {
	for _, size := range []int{0, 4096, 1 << 20} {
		for _, depth := range []int{1, 16} {
			for _, own := range []bool{false, true} {
				name := fmt.Sprintf("size=%d/depth=%d/own=%v", size, depth, own)
				b.Run(name, func(b *testing.B) { benchCalls(b, mpa.CRCOff, size, depth, own) })
			}
		}
	}
	b.Run("crc", func(b *testing.B) { benchCalls(b, mpa.CRCOn, 1<<20, 16, false) })
}

// BenchmarkConnections measures the same calls over one connection, 16 at a
// time, and over many connections.
func BenchmarkConnections(b *testing.B) {
	for _, size := range []int{0, 4096, 1 << 20} {
		for _, conns := range []int{1, 64} {
			b.Run(fmt.Sprintf("size=%d/conns=%d", size, conns), func(b *testing.B) {
				addr, pid := startServer(b, "plain")
				cfg, callers := Config{CRC: mpa.CRCOff}, make([]*benchClient, conns)
				for i := range callers {
					callers[i] = newBenchClient(b, addr, cfg, size, max(16/conns, 1), false)
					defer callers[i].conn.Close()
				}
				b.SetBytes(int64(size))
				b.ResetTimer()
				measureCPU(b, pid, func() {
					var wg sync.WaitGroup
					for i, cl := range callers {
						if n := (b.N + i) / conns; n > 0 {
							wg.Go(func() { cl.run(n) })
						}
					}
					wg.Wait()
				})
				b.StopTimer()
			})
		}
	}
}

func benchCalls(b *testing.B, crc mpa.CRC, size, depth int, own bool) {
	kind := "plain"
	if crc == mpa.CRCOn {
		kind = "crc"
	}
	addr, pid := startServer(b, kind)
	cl := newBenchClient(b, addr, Config{CRC: crc}, size, depth, own)
	defer cl.conn.Close()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	measureCPU(b, pid, func() { cl.run(b.N) })
	b.StopTimer()
	require.NoError(b, cl.closeErr)
}

//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/workload"
)

const mountrdmaLimit = 4 * time.Minute // for one command, against an emulated server

// runMountrdma runs the program, which must succeed and print no warning.
func runMountrdma(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	var out, said sharedBuffer
	cmd := exec.Command(programPath("mountrdma"), args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	p, err := StartProcess(cmd)
	require.NoError(t, err)
	defer p.Kill()
	select {
	case <-p.Done():
		require.Zero(t, p.ExitCode(), "%s: %s", cmd, &said)
		require.Empty(t, said.String(), "%s", cmd)
	case <-time.After(mountrdmaLimit):
		t.Fatalf("%s: not done after %v", cmd, mountrdmaLimit)
	}
	return out.String()
}

// A mountServer is a server that mountrdma on the host can reach.
type mountServer struct {
	addr  string // host:port, RDMA
	mount int    // port of MOUNT over TCP, 0 if MOUNT is on RDMA
	guestSite
}

func (s mountServer) serverArgument() string {
	if s.mount == 0 {
		return s.addr
	}
	return fmt.Sprintf("%s?mountport=%d", s.addr, s.mount)
}

func (s mountServer) fileURL(path string) string {
	server, options, found := strings.Cut(s.serverArgument(), "?")
	url := "nfs://" + server + s.export + "/" + path
	if found {
		url += "?" + options
	}
	return url
}

func knfsdShop(t *testing.T) mountServer {
	g, s := sharedGuest(t), knfsdSite()
	return mountServer{addr: g.Addr(s.rdma), mount: portOf(t, g.Addr(s.mountd)), guestSite: s}
}

func nfsrdmadShop(t *testing.T) mountServer {
	d := startDaemon(t, "--no-root-squash")
	return mountServer{addr: d.rdma, guestSite: d.guestSite()}
}

var shops = map[string]func(*testing.T) mountServer{"knfsd": knfsdShop, "nfsrdmad": nfsrdmadShop}

// TestMountrdmaCopy copies the workload's files to a server and back, and
// compares all properties: content, modes, owners, times, links, names. The whole
// tree of 5,000 files, and the large file, are for make soak.
func TestMountrdmaCopy(t *testing.T) {
	sharedGuest(t)
	here := t.TempDir()
	steps := []string{"tree", "sizes", "truncate", "sparse", "names", "attributes"}
	if os.Getenv("INTEROP_SOAK") != "" {
		steps = append(steps, "large")
	}
	require.NoError(t, workload.Run(here, &bytes.Buffer{}, steps...))
	pruneTree(t, here)
	require.NoError(t, os.Symlink("nowhere/\xff", filepath.Join(here, "link")))
	want := hostDir(here).readManifest(t, "")
	for name, find := range shops {
		t.Run(name, func(t *testing.T) {
			s := find(t)
			t.Cleanup(func() { s.runShell(t, "rm -rf there") })
			logTime(t, "cp to the server", func() { runMountrdma(t, "cp", "-r", "-p", "--jobs=64", here, s.fileURL("there")) })
			sameLines(t, want, s.readManifest(t, "there"))
			back := t.TempDir()
			logTime(t, "cp from the server", func() { runMountrdma(t, "cp", "-r", "-p", "--jobs=64", s.fileURL("there"), back) })
			sameLines(t, want, hostDir(back).readManifest(t, "there"))
			logTime(t, "rm -r", func() { runMountrdma(t, "rm", "-r", s.fileURL("there")) })
			assert.Empty(t, runMountrdma(t, "ls", s.fileURL("")))
		})
	}
}

// pruneTree leaves 1,000 of the 5,000 files of the workload's tree, except in a soak.
func pruneTree(t *testing.T, dir string) {
	if os.Getenv("INTEROP_SOAK") == "" {
		onHost(t, dir, "rm -r tree/d[1-4]?")
	}
}

// TestMountrdmaInfo compares the output of info with tshark's view of the wire.
func TestMountrdmaInfo(t *testing.T) {
	sharedGuest(t)
	for name, find := range shops {
		t.Run(name, func(t *testing.T) {
			s := find(t)
			raw := filepath.Join(t.TempDir(), "info.pcap")
			capture := Record(t, raw, fmt.Sprintf("tcp port %d", portOf(t, s.addr)))
			out := runMountrdma(t, "info", "--json", s.serverArgument())
			capture.End(t)
			cut, _ := resegmentCapture(t, raw)
			keepCaptures(t, raw, cut)
			wire := readCapturedConn(t, cut)

			var info struct {
				MPA struct {
					Revision, IRD, ORD int
					CRC, Markers       bool
				}
				RPCRDMA struct {
					PrivateData  bool `json:"private_data"`
					InlineSend   int  `json:"inline_send"`
					InlineRecv   int  `json:"inline_recv"`
					Credits      int
					Invalidation struct{ Client, Server, Seen bool } `json:"remote_invalidation"`
				}
				Exports []struct{ Path string }
			}
			require.NoError(t, json.Unmarshal([]byte(out), &info))
			m, r := info.MPA, info.RPCRDMA
			assert.Equal(t, wire.revision, m.Revision)
			assert.Equal(t, wire.crc, m.CRC)
			assert.Equal(t, wire.markers, m.Markers)
			assert.Equal(t, wire.ird, m.IRD)
			assert.Equal(t, wire.ord, m.ORD)
			assert.True(t, r.PrivateData)
			assert.Equal(t, wire.inlineSend, r.InlineSend)
			assert.Equal(t, wire.inlineRecv, r.InlineRecv)
			assert.Equal(t, wire.credits, r.Credits)
			assert.Equal(t, wire.serverTakes, r.Invalidation.Server)
			assert.Equal(t, wire.invalidated, r.Invalidation.Seen)
			assert.True(t, r.Invalidation.Client)
			require.Len(t, info.Exports, 1)
			assert.Equal(t, s.export, info.Exports[0].Path)
			t.Logf("%s", runMountrdma(t, "info", s.serverArgument()))
			t.Logf("%s", runMountrdma(t, "ping", s.addr))
		})
	}
}

// A capturedConn holds the properties of one connection that a capture shows.
type capturedConn struct {
	revision               int
	crc, markers           bool
	ird, ord               int // the client's: requested, and granted
	inlineSend, inlineRecv int // bytes
	credits                int
	serverTakes            bool // Send with Invalidate
	invalidated            bool
}

// readCapturedConn reads a capture by tshark. It takes IRD, ORD and the agreed inline sizes
// from the private data, which tshark 4.0 does not decode:
//
//	IRD ORD f6ab0e18 version flags send receive
//	2   2   4        1       1     1    1        bytes
//
// This project's ends append a block of their own.
func readCapturedConn(t *testing.T, file string) (w capturedConn) {
	fields := func(filter string, names ...string) []string {
		args := []string{"-Y", filter, "-T", "fields", "-E", "occurrence=f"}
		for _, n := range names {
			args = append(args, "-e", n)
		}
		first, _, _ := strings.Cut(Tshark(t, file, args...), "\n")
		f := strings.Split(first, "\t")
		require.Len(t, f, len(names), first)
		return f
	}
	private := func(s string) []byte {
		var b []byte
		_, err := fmt.Sscanf(strings.ReplaceAll(s, ":", ""), "%x", &b)
		require.NoError(t, err, s)
		require.GreaterOrEqual(t, len(b), 12)
		return b
	}
	req := private(fields("iwarp_mpa.req", "iwarp_mpa.privatedata")[0])
	rep := fields("iwarp_mpa.rep", "iwarp_mpa.rev", "iwarp_mpa.crc_flag", "iwarp_mpa.marker_flag", "iwarp_mpa.privatedata")
	pd := private(rep[3])
	w.revision = parseNumber(t, rep[0])
	w.crc, w.markers = parseNumber(t, rep[1]) != 0, parseNumber(t, rep[2]) != 0
	short := func(b []byte) int { return int(b[0]&0x3f)<<8 | int(b[1]) }
	size := func(a, b byte) int { return 1024 * (int(min(a, b)) + 1) }
	w.ird, w.ord = short(req), min(short(pd), short(req[2:]))
	w.inlineSend, w.inlineRecv = size(req[10], pd[11]), size(req[11], pd[10])
	w.serverTakes = pd[9]&1 != 0
	replies := strings.Fields(Tshark(t, file, "-Y", "rpc.msgtyp == 1 || rpcordma.msg_type == 1", "-T", "fields", "-e", "rpcordma.flow_control"))
	w.credits = parseNumber(t, replies[len(replies)-1])
	w.invalidated = countFrames(t, file, "iwarp_rdma.opcode == 4") > 0
	return w
}

func parseNumber(t *testing.T, word string) int {
	t.Helper()
	if word == "True" || word == "False" {
		return map[string]int{"True": 1}[word]
	}
	n, err := strconv.ParseInt(word, 0, 32)
	require.NoError(t, err)
	return int(n)
}

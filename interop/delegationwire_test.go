//go:build interop

package interop

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The extension's messages: docs/delegation.md.
const (
	// acquireCall is in each call's header: RPC version 2, program, version and
	// procedure, in the form of tshark's filters. tshark knows no program of that number.
	acquireCall = "00:00:00:02:20:66:72:78:00:00:00:01:00:00:00:01"

	slotAddMask  = "0x8000000080000000"
	kindRecall   = 1
	kindReturned = 2

	wireLease = 3 * time.Second
)

// TestDelegationWire captures how a mount acquires a delegation of a file,
// opens the file again, and returns the delegation because of another mount.
// tshark decodes the operations of RFC 7306: their order keeps caches coherent.
func TestDelegationWire(t *testing.T) {
	buildOnce(t)
	d := startDaemon(t, "--no-root-squash", "--exclusive", "--lease", wireLease.String())
	s := mountServer{addr: d.rdma, guestSite: d.guestSite()}
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "file"), []byte("first\n"), 0o644))
	raw := filepath.Join(t.TempDir(), "delegation.pcap")
	capture := Record(t, raw, fmt.Sprintf("tcp port %d", portOf(t, d.rdma)))
	holder, writer := s.mountFUSE(t), s.mountFUSE(t)
	file := filepath.Join(holder.point, "file")
	assert.Equal(t, "first\n", onHost(t, "/", "cat "+file))
	// A client that has not renewed its lease for two thirds of the lease asks
	// by an atomic operation.
	holder.proc.Stop()
	time.Sleep(wireLease * 7 / 10)
	holder.proc.Signal(syscall.SIGCONT)
	assert.Equal(t, "first\n", onHost(t, "/", "cat "+file))
	onHost(t, writer.point, "echo second >>file")
	assert.Equal(t, "first\nsecond\n", onHost(t, "/", "cat "+file))
	holder.unmountFUSE()
	writer.unmountFUSE()
	capture.End(t)
	cut, _ := resegmentCapture(t, raw)
	keepCaptures(t, cut)

	for c, n := range expertInfos(t, cut, asIs) {
		assert.Contains(t, dissected, c, "%d times", n)
	}
	all := extensionMessages(t, cut, portOf(t, d.rdma))
	first := slices.IndexFunc(all, func(e extensionMessage) bool { return e.kind == kindRecall })
	require.Positive(t, first, "something is recalled")
	recall := all[first]
	before, after := all[:first], all[first+1:]
	of := func(what string) func(extensionMessage) bool {
		return func(e extensionMessage) bool { return e.stream == recall.stream && e.what == what }
	}
	assert.True(t, recall.fromServer)
	assert.True(t, slices.ContainsFunc(before, of("ACQUIRE")), "the call precedes it")
	opens := 0
	for _, e := range before {
		if of("FetchAdd")(e) && e.slot != 0 {
			assert.Equal(t, slotAddMask, e.mask)
			opens++
		}
	}
	assert.Positive(t, opens, "the file is opened again by an atomic operation")

	back := slices.IndexFunc(after, func(e extensionMessage) bool { return e.kind == kindReturned })
	require.GreaterOrEqual(t, back, 0, "the delegation is returned")
	assert.Equal(t, recall.stream, after[back].stream)
	assert.Equal(t, [2]uint32{recall.slot, recall.generation}, [2]uint32{after[back].slot, after[back].generation})
	assert.False(t, after[back].fromServer)
	asked, answered := 0, 0
	for _, e := range slices.Concat(before, after[:back]) {
		switch {
		case e.stream != recall.stream:
		case e.what == "FetchAdd":
			asked++
		case e.what == "Response":
			answered++
		}
	}
	assert.Equal(t, asked, answered, "each atomic operation is answered before")
	for _, e := range after[back:] { // until the slot is granted again, with another generation
		if of("ACQUIRE")(e) {
			break
		}
		assert.False(t, of("FetchAdd")(e) && e.slot == recall.slot, "an atomic operation on a returned delegation: %+v", e)
	}
	changed, _, _ := strings.Cut(Tshark(t, cut, "-Y", "nfs.procedure_v3 == 7 && rpc.msgtyp == 1", "-T", "fields", "-e", "frame.number"), "\n")
	assert.Greater(t, parseNumber(t, changed), after[back].frame, "the other client's WRITE is answered after the return")
}

// An extensionMessage is a message of the extension.
type extensionMessage struct {
	frame      int
	stream     string
	fromServer bool
	what       string // ACQUIRE, FetchAdd, Response, Immediate

	mask             string // in FetchAdd
	kind             int    // in Immediate
	slot, generation uint32 // in FetchAdd and Immediate; 0: the lease
}

// extensionMessages returns the events of a capture, in order.
func extensionMessages(t *testing.T, file string, server int) (all []extensionMessage) {
	t.Helper()
	regions := make(map[string]uint64) // tagged offset of each connection's
	for _, f := range frameFields(t, file, "iwarp_mpa.rep", "tcp.stream", "iwarp_mpa.privatedata") {
		b, err := hex.DecodeString(strings.ReplaceAll(f[1], ":", ""))
		require.NoError(t, err)
		if i := strings.Index(string(b), "nfrx"); i >= 0 {
			regions[f[0]] = binary.BigEndian.Uint64(b[i+12:])
		}
	}
	for _, f := range frameFields(t, file, "iwarp_rdma.opcode == 3 && tcp.payload contains "+acquireCall, "frame.number", "tcp.stream") {
		all = append(all, extensionMessage{frame: parseNumber(t, f[0]), stream: f[1], what: "ACQUIRE"})
	}
	for _, f := range frameFields(t, file, "iwarp_rdma.opcode >= 8 && iwarp_rdma.opcode <= 11", "frame.number", "tcp.stream", "tcp.srcport",
		"iwarp_rdma.opcode", "iwarp_rdma.atomic.remote_tagged_offset", "iwarp_rdma.atomic.add_mask", "tcp.payload") {
		e := extensionMessage{frame: parseNumber(t, f[0]), stream: f[1], fromServer: f[2] == strconv.Itoa(server)}
		switch f[3] {
		case "0x0a":
			at, err := strconv.ParseUint(f[4], 10, 64)
			require.NoError(t, err)
			e.what, e.mask, e.slot = "FetchAdd", f[5], uint32((at-regions[f[1]])/8)
		case "0x0b":
			e.what = "Response"
		default:
			require.Equal(t, "0x09", f[3], "with Solicited Event")
			b, err := hex.DecodeString(strings.ReplaceAll(f[6], ":", ""))
			require.NoError(t, err)
			data := b[20:28] // after MPA's length and DDP's header
			e.what, e.kind = "Immediate", int(data[0])
			e.slot, e.generation = binary.BigEndian.Uint32(data)&0xffffff, binary.BigEndian.Uint32(data[4:])
		}
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b extensionMessage) int { return a.frame - b.frame })
	return all
}

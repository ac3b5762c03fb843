package main

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// decodeObject decodes out, which must be one JSON object.
func decodeObject(t *testing.T, out string) map[string]any {
	t.Helper()
	var o map[string]any
	d := json.NewDecoder(bytes.NewBufferString(out))
	require.NoError(t, d.Decode(&o))
	assert.False(t, d.More(), "one object")
	return o
}

func TestInfo(t *testing.T) {
	r := newTestServer(t, func(s *rpcrdma.Server, c *iwarp.Config, _ *nfsserver.Config) {
		s.Inline, s.Credits = 2048, 7
		c.IRD, c.ORD = 5, 6
	})
	out := mustRun(t, "info", r.addr, "--json", "--inline=8KiB")
	assert.JSONEq(t, `{
		"server": "`+r.addr+`", "address": "`+r.addr+`", "tls": {"mode": "none"},
		"proto": "rdma", "mpa": {"revision": 2, "crc": false, "markers": false, "peer_to_peer": false, "ird": 128, "ord": 5, "server_ird": 5, "server_ord": 6},
		"rpcrdma": {
			"version": 1, "private_data": true, "inline_send": 2048, "inline_recv": 2048, "credits": 7,
			"remote_invalidation": {"client": true, "server": true, "seen": true},
			"extensions": {"server": false, "immediate_data": 0, "atomics": false, "delegation": false, "counters": 0}
		},
		"mount": "RDMA `+r.addr+`", "exports": [{"path": "/x", "url": "`+r.url+`", "clients": []}], "versions": ["3"]
	}`, out)
	assert.Equal(t, `server               `+r.addr+` (`+r.addr+`)
TLS                  none
MPA revision         2
CRC                  on
markers              off
peer-to-peer         off
IRD, ORD             128, 5; server: 5, 6
RPC-over-RDMA        version 1, with private data (RFC 8797)
inline thresholds    1024 bytes to the server, 1024 from it
credits              3
remote invalidation  client accepts it: yes, server accepts it: yes, server did it: yes
extensions           none
NFS versions         3
MOUNT                RDMA `+r.addr+`
export               /x for everyone
`, mustRun(t, "info", r.addr, "--crc=on", "--inline=1KiB", "--credits=3"))
}

// TestInfoMarkers checks that Markers are used if either end requests them.
func TestInfoMarkers(t *testing.T) {
	for _, server := range []bool{false, true} {
		r := newTestServer(t, func(_ *rpcrdma.Server, c *iwarp.Config, _ *nfsserver.Config) { c.Markers = server })
		for _, client := range []bool{false, true} {
			args := []string{"info", r.addr, "--json", "--no-extensions", "--markers=" + onOff(client)}
			assert.Equal(t, server || client, decodeObject(t, mustRun(t, args...))["mpa"].(map[string]any)["markers"])
		}
	}
}

func TestPing(t *testing.T) {
	r := newTestServer(t)
	o := decodeObject(t, mustRun(t, "ping", r.addr, "-c", "5", "--json"))
	assert.Equal(t, r.addr, o["server"])
	assert.EqualValues(t, 5, o["count"])
	for _, pair := range [][2]string{{"min_us", "median_us"}, {"median_us", "p99_us"}, {"p99_us", "max_us"}} {
		assert.LessOrEqual(t, o[pair[0]], o[pair[1]])
	}
	assert.Greater(t, o["min_us"], 0.0)
	assert.EqualValues(t, 6, r.calls.Load(), "one call when connecting, and one per round trip")
	assert.Regexp(t, `^1 round trips to \S+: min [\d.]+ µs, median [\d.]+ µs, p99 [\d.]+ µs, max [\d.]+ µs\n$`, mustRun(t, "ping", r.addr, "-c1"))
}

func TestBench(t *testing.T) {
	r := newTestServer(t)
	writeFile(t, randomBytes(3<<20+5, 1), r.dir, "f")
	for _, tt := range []struct {
		op    string
		block int
		data  bool
	}{
		{"read", 1 << 20, true},
		{"randread", 4096, true},
		{"write", 64 << 10, true},
		{"randwrite", 4096, true},
		{"getattr", 0, false},
		{"null", 0, false},
	} {
		t.Run(tt.op, func(t *testing.T) {
			args := []string{"bench", r.url + "/f", "--op=" + tt.op, "--depth=3", "--time=50ms"}
			if tt.data && tt.block != 1<<20 {
				args = append(args, "--block", sizeWord(tt.block))
			}
			assert.NotEmpty(t, mustRun(t, args...))
			o := decodeObject(t, mustRun(t, append(args, "--json")...))
			keys := []string{"op", "block", "depth", "connections", "seconds", "bytes", "ops", "MBps", "iops", "lat_us", "client_cpu_s", "lost_s"}
			for _, k := range keys {
				assert.Contains(t, o, k)
			}
			assert.Len(t, o, len(keys))
			assert.Equal(t, tt.op, o["op"])
			assert.EqualValues(t, tt.block, o["block"])
			assert.EqualValues(t, 3, o["depth"])
			seconds, bytes, ops := o["seconds"].(float64), o["bytes"].(float64), o["ops"].(float64)
			assert.Greater(t, ops, 2.0)
			assert.GreaterOrEqual(t, seconds, 0.05)
			assert.Equal(t, ops*float64(tt.block), bytes, "no short transfers")
			assert.InDelta(t, bytes/1e6/seconds, o["MBps"], 1)
			assert.InDelta(t, ops/seconds, o["iops"], 1)
			lat := o["lat_us"].(map[string]any)
			names := []string{"min", "p50", "p95", "p99", "max"}
			assert.Len(t, lat, len(names))
			for i := range names[1:] {
				assert.LessOrEqual(t, lat[names[i]], lat[names[i+1]])
			}
		})
	}
	info, err := os.Stat(filepath.Join(r.dir, "f"))
	require.NoError(t, err)
	assert.EqualValues(t, 3<<20+5, info.Size(), "writes stay within the file")

	o := decodeObject(t, mustRun(t, "bench", r.url+"/f", "--block=2MiB", "--time=10ms", "--json"))
	assert.EqualValues(t, 1<<20, o["block"], "the longest READ that the server has")
	writeFile(t, []byte("x"), r.dir, "short")
	assert.Equal(t, "mountrdma: "+r.url+"/short: has 1 bytes, less than one block of 1048576: copy a longer file there, or take a smaller --block\n",
		mustFail(t, "bench", r.url+"/short"))
	assert.Equal(t, "mountrdma: "+r.url+": not a regular file, which write needs\n", mustFail(t, "bench", r.url, "--op=write"))
}

// TestBenchList checks that one call of readdirplus is a complete listing.
func TestBenchList(t *testing.T) {
	r := newTestServer(t)
	writeFile(t, []byte("x"), r.dir, "f")
	o := decodeObject(t, mustRun(t, "bench", r.url, "--op=readdirplus", "--depth=1", "--time=10ms", "--json"))
	assert.Equal(t, "readdirplus", o["op"])
	assert.Positive(t, o["ops"])
	assert.Zero(t, o["bytes"])
	assert.Equal(t, "mountrdma: "+r.url+"/f: not a directory, which readdirplus needs\n", mustFail(t, "bench", r.url+"/f", "--op=readdirplus"))
}

// TestBenchConnections checks that each active connection sends calls, and that
// an idle connection sends only its first.
func TestBenchConnections(t *testing.T) {
	r := newTestServer(t)
	writeFile(t, randomBytes(1<<20, 1), r.dir, "f")
	var mu sync.Mutex
	calls := make(map[netip.AddrPort]int) // by connection
	count := func(req *oncrpc.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		calls[req.Peer.Addr]++
		return false
	}
	r.holdCall.Store(&count)
	o := decodeObject(t, mustRun(t, "bench", r.url+"/f", "--op=randread", "--block=4KiB", "--connections=3", "--depth=2", "--time=10ms", "--json"))
	assert.EqualValues(t, 3, o["connections"])
	assert.GreaterOrEqual(t, o["ops"], 6.0)
	assert.Len(t, calls, 3)
	for _, n := range calls {
		assert.Greater(t, n, 2)
	}

	clear(calls)
	o = decodeObject(t, mustRun(t, "bench", r.url, "--op=null", "--idle=5", "--depth=1", "--time=10ms", "--json"))
	assert.EqualValues(t, 1, o["connections"])
	assert.Len(t, calls, 6)
	idle := 0
	for _, n := range calls {
		if n == 1 {
			idle++
		}
	}
	assert.Equal(t, 5, idle)

	clear(calls)
	stuck := func(req *oncrpc.Request) bool {
		count(req)
		mu.Lock()
		defer mu.Unlock()
		return len(calls) > 1
	}
	r.holdCall.Store(&stuck)
	assert.Contains(t, mustFail(t, "bench", r.url+"/f", "--connections=2", "--timeout=100ms"), "replies to no call")
}

func sizeWord(n int) string {
	if n < 1<<20 {
		return map[int]string{4096: "4KiB", 64 << 10: "64KiB"}[n]
	}
	return "1MiB"
}

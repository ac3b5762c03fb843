package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A runningTrace is an nfsrdmad trace command.
type runningTrace struct {
	lines  *bufio.Reader
	stop   context.CancelFunc
	status chan int
	stderr strings.Builder
}

// startTrace starts nfsrdmad trace, which tells that it is ready when the daemon has sent a header.
func startTrace(t *testing.T, control string, args ...string) *runningTrace {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := &runningTrace{stop: stop, status: make(chan int, 1)}
	r, w := io.Pipe()
	c.lines = bufio.NewReader(r)
	go func() {
		c.status <- run(ctx, append([]string{"trace", "--control", control}, args...), w, &c.stderr)
		w.Close()
	}()
	t.Cleanup(func() { stop(); r.Close() })
	return c
}

// callUntilTraced repeats a call until the command shows one, and returns its line.
func (c *runningTrace) callUntilTraced(t *testing.T, call func()) string {
	t.Helper()
	line := make(chan string, 1)
	go func() {
		text, _ := c.lines.ReadString('\n')
		line <- text
	}()
	for {
		call()
		select {
		case text := <-line:
			return text
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// parse returns a line as JSON.
func parseTraced(t *testing.T, line string) (c report.TracedCall) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(line), &c), line)
	return c
}

// TestCallTrace follows calls of versions 3 and 4 to a daemon process: what their lines say, in
// text and as JSON, and that the command ends with an interrupt and with the daemon.
func TestCallTrace(t *testing.T) {
	control := filepath.Join(t.TempDir(), "control")
	p := startProc(t, "--control", control)
	c, err := net.Dial("tcp", p.transportAddr(t, "tcp"))
	require.NoError(t, err)
	defer c.Close()
	root := mountOverTCP(t, c, "/x")
	file := lookUpFile(t, c, root, "file")
	read := func() {
		status, _ := callNFS3(t, c, nfs3.ProcRead, (&nfs3.ReadArgs{File: file, Count: 4096}).AppendTo(nil))
		require.Equal(t, nfs3.OK, status)
	}
	asJSON := startTrace(t, control, "--json")
	got := parseTraced(t, asJSON.callUntilTraced(t, read))
	assert.WithinDuration(t, time.Now(), got.Time, time.Minute)
	assert.Positive(t, got.Seconds)
	assert.Positive(t, got.FileID)
	assert.True(t, strings.HasPrefix(got.Path, "/") && strings.HasSuffix(got.Path, "/file"), got.Path)
	path := got.Path
	assert.Greater(t, got.BytesOut, uint64(4096))
	assert.Equal(t, report.TracedCall{
		Time: got.Time, Client: "127.0.0.1", Transport: "tcp", Program: "nfs3", Procedure: "READ", Export: "/x", Path: path, FileID: got.FileID,
		BytesIn: got.BytesIn, BytesOut: got.BytesOut, BytesRead: 4096, Status: "OK", Seconds: got.Seconds,
	}, got)

	// A name is the client's data, which must not reach a terminal as it is.
	failing := startTrace(t, control, "--errors", "--procedure", "lookup", "--path", filepath.Dir(path), "--client", "127.0.0.0/8", "--export", "/x")
	text := failing.callUntilTraced(t, func() {
		read()
		status, _ := callNFS3(t, c, nfs3.ProcLookup, (&nfs3.DirOpArgs{Dir: root, Name: []byte("no\x1b[31m")}).AppendTo(nil))
		require.Equal(t, nfs3.ErrNoEnt, status)
	})
	assert.Regexp(t, `^\d\d:\d\d:\d\d\.\d{6} 127\.0\.0\.1 /x nfs3 LOOKUP `+filepath.Dir(path)+` "no\\x1b\[31m" NFS3ERR_NOENT [0-9.]+ (µs|ms|s)\n$`, text)

	compound := appendPutFH([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}, file)
	compound = nfs4.AppendOp(compound, nfs4.OpRead, &nfs4.ReadArgs{StateID: nfs4.AnonymousStateID, Count: 100})
	version4 := startTrace(t, control, "--procedure", "PUTFH")
	text = version4.callUntilTraced(t, func() {
		parseAccepted(t, tcpCall(t, c, encodeCall(3, nfs4.Program, nfs4.Version, nfs4.ProcCompound, compound)), 3, 0)
	})
	assert.Contains(t, text, " /x nfs4 READ "+path+" [PUTFH READ] read 100 OK ")

	fourth := startTrace(t, control, "--procedure", "NULL")
	fourth.callUntilTraced(t, func() {
		parseAccepted(t, tcpCall(t, c, encodeCall(4, nfs3.Program, nfs3.Version, nfs3.ProcNull, nil)), 4, 0)
	})
	var out, stderr strings.Builder
	assert.Equal(t, 1, run(t.Context(), []string{"trace", "--control", control}, &out, &stderr), "the number of commands is bounded")
	assert.Contains(t, stderr.String(), "other nfsrdmad trace commands are running")
	fourth.stop()
	go func() { _, _ = io.Copy(io.Discard, fourth.lines) }()
	assert.Zero(t, <-fourth.status, "an interrupt: %s", &fourth.stderr)
	p.sendTerm()
	go func() { _, _ = io.Copy(io.Discard, asJSON.lines) }()
	assert.Equal(t, 1, <-asJSON.status)
	assert.Contains(t, asJSON.stderr.String(), "the daemon has ended the trace")
	p.waitExit()
}

// TestCallTraceArguments checks that a filter that selects nothing by mistake is a usage error
// which names the remedy.
func TestCallTraceArguments(t *testing.T) {
	for arg, want := range map[string]string{
		"--client=x": "192.0.2.0/24", "--procedure=RAED": "no procedure or NFSv4 operation", "--slower=5": "10ms", "--slower=-1s": "10ms", "--path=a/b": "absolute", "--export=srv": "absolute",
		"--client=": "192.0.2.0/24", "--procedure=": "no procedure", "--slower=": "10ms", "--path=": "absolute", "--export=": "absolute", "--client=::ffff:192.0.2.0/120": "192.0.2.0/24",
	} {
		var out, stderr strings.Builder
		assert.Equal(t, 2, run(t.Context(), []string{"trace", arg}, &out, &stderr), arg)
		assert.Contains(t, stderr.String(), want)
	}
}

// TestCallTraceOff checks that calls have no Trace while no command runs, and that a removed reader
// leaves none.
func TestCallTraceOff(t *testing.T) {
	p := new(runningDaemon)
	assert.Nil(t, p.newCallTrace())
	assert.Zero(t, testing.AllocsPerRun(10, func() { p.newCallTrace() }))
	r, err := p.callTraces.addReader(callFilter{})
	require.NoError(t, err)
	assert.NotNil(t, p.newCallTrace())
	p.callTraces.removeReader(r)
	assert.Nil(t, p.newCallTrace())
}

// TestCallTraceDrops checks that a call never waits for a reader: what does not fit into its queue,
// and what exceeds its rate, is dropped and counted.
func TestCallTraceDrops(t *testing.T) {
	var all callTraces
	r, err := all.addReader(callFilter{})
	require.NoError(t, err)
	now := time.Now()
	for range callTraceQueue + 10 {
		r.offer(new(tracedCall), now)
	}
	assert.EqualValues(t, 10, r.dropped.Load())
	for range callTraceRate - callTraceQueue - 10 {
		<-r.queue
		r.offer(new(tracedCall), now)
	}
	assert.EqualValues(t, 10, r.dropped.Load())
	<-r.queue
	r.offer(new(tracedCall), now)
	assert.EqualValues(t, 11, r.dropped.Load(), "too many in one second")
	r.offer(new(tracedCall), now.Add(time.Second))
	assert.EqualValues(t, 11, r.dropped.Load())
	assert.Equal(t, "7 calls dropped: there are too many; a filter helps\n", printTraced(t, &report.TracedCall{Dropped: 7}))
}

func printTraced(t *testing.T, c *report.TracedCall) string {
	var b strings.Builder
	require.NoError(t, c.PrintText(&b))
	return b.String()
}

// TestCallFilter checks each filter.
func TestCallFilter(t *testing.T) {
	call := report.TracedCall{Client: "192.0.2.7", Procedure: "OPEN", Operations: []report.TracedOperation{{Name: "PUTFH"}, {Name: "OPEN"}}, Export: "/srv", Path: "/srv/a", Name: "b", Seconds: 0.01}
	for query, want := range map[string]bool{
		"": true, "client=192.0.2.7": true, "client=192.0.2.0/24": true, "client=192.0.2.8": false, "client=2001:db8::/32": false, "client=::ffff:192.0.2.7": true,
		"export=/srv": true, "export=/srv/": true, "export=/sr": false, "procedure=open": true, "procedure=putfh": true, "procedure=READ": false, "errors=true": false,
		"slower=10ms": true, "slower=11ms": false, "path=/srv": true, "path=/srv/a": true, "path=/srv/a/b": true, "path=/srv/a/b/c": false, "path=/sr": false, "path=/": true,
	} {
		req, err := url.ParseQuery(query)
		require.NoError(t, err)
		f, err := parseCallFilter(req)
		require.NoError(t, err, query)
		assert.Equal(t, want, f.matchesClient(netip.MustParseAddr(call.Client)) && f.matchesCall(&call) && f.matchesPlace(&call), query)
	}
}

// TestParseObject checks which file handle and name a call is shown with.
func TestParseObject(t *testing.T) {
	fh, opaque := []byte("handle"), func(b ...string) (all []byte) {
		for _, s := range b {
			all = xdr.AppendOpaque(all, []byte(s))
		}
		return all
	}
	open := nfs4.AppendOp(appendPutFH([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}, fh), nfs4.OpOpen, &nfs4.OpenArgs{Claim: nfs4.ClaimNull, Name: []byte("name")})
	lock := append(opaque("cookie"), 0, 0, 0, 1, 0, 0, 0, 1)
	for name, tt := range map[string]struct {
		prog, vers, proc uint32
		args             []byte
		name             string
	}{
		"NFSv3 with a name": {nfs3.Program, nfs3.Version, nfs3.ProcLookup, opaque("handle", "name"), "name"},
		"NFSv3":             {nfs3.Program, nfs3.Version, nfs3.ProcGetAttr, opaque("handle"), ""},
		"OPEN":              {nfs4.Program, nfs4.Version, nfs4.ProcCompound, open, "name"},
		"LOCK":              {nlm4.Program, nlm4.Version, nlm4.ProcLock, append(lock, opaque("host", "handle")...), ""},
	} {
		p := rpcmsg.Procedure{Prog: tt.prog, Vers: tt.vers, Proc: tt.proc}
		msg := encodeCall(1, tt.prog, tt.vers, tt.proc, tt.args)
		gotFH, gotName := parseObject(p, msg)
		assert.Equal(t, fh, gotFH, name)
		assert.Equal(t, tt.name, string(gotName), name)
		for n := range len(msg) {
			parseObject(p, msg[:n])
		}
	}
}

// FuzzParseObject checks that a traced call may be any message.
func FuzzParseObject(f *testing.F) {
	f.Add(encodeCall(1, nfs3.Program, nfs3.Version, nfs3.ProcLookup, []byte("xxxx")))
	f.Add(encodeCall(1, nfs4.Program, nfs4.Version, nfs4.ProcCompound, []byte("xxxx")))
	f.Add(encodeCall(1, nlm4.Program, nlm4.Version, nlm4.ProcLock, []byte("xxxx")))
	f.Fuzz(func(t *testing.T, msg []byte) {
		p, ok := rpcmsg.ProcedureOf(msg)
		if !ok {
			return
		}
		fh, name := parseObject(p, msg)
		assert.LessOrEqual(t, len(fh), maxTracedHandle)
		assert.LessOrEqual(t, len(name), 4*maxTracedName)
	})
}

// TestBothTraces checks that a call may have spans and a line at once.
func TestBothTraces(t *testing.T) {
	p := new(runningDaemon)
	r, err := p.callTraces.addReader(callFilter{})
	require.NoError(t, err)
	both := traces{newTracedCall(p.callTraces.readers()), newTracedCall(p.callTraces.readers())}
	rep := &oncrpc.Reply{Trace: both}
	msg := encodeCall(1, nfs3.Program, nfs3.Version, nfs3.ProcGetAttr, nil)
	tracedService{rpcstats.NewObserver(fakeProgram{})}.Serve(t.Context(), &oncrpc.Request{Msg: msg, Peer: new(oncrpc.Peer)}, rep)
	rep.EndTrace()
	assert.Len(t, r.queue, 2)
	assert.Equal(t, "nfs3", (<-r.queue).Program)
}

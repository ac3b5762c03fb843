//go:build interop

package interop

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/transact"
)

// The transactions by each program, and the kills during them. In make soak there
// are more.
const (
	transactions     = 60
	transactionKills = 3
	soakTransactions = 10000
	soakKills        = 20
	transactionPause = 40 * time.Millisecond // for the host's program, which is faster
	soakPause        = 250 * time.Millisecond
)

// TestTransactions4 lets sqlite3 write to one database on two mounts of the guest,
// over RDMA and over TCP, and on the host, and kills nfsrdmad during them. Each
// transaction must be there once.
//
// The host's kernel drops the locks of a daemon that is killed, so a program of
// the host could take them before the clients have reclaimed them. It therefore
// rests between two transactions from a kill until both clients have gone on.
func TestTransactions4(t *testing.T) {
	sharedGuest(t)
	count, kills, pause := transactions, transactionKills, transactionPause
	if os.Getenv("INTEROP_SOAK") != "" {
		count, kills, pause = soakTransactions, soakKills, soakPause
	}
	d := startDaemon(t, "--no-root-squash")
	db := filepath.Join(d.dir, "db")
	assert.Equal(t, "delete\n", onHost(t, d.dir, "sqlite3 db '"+transact.Schema+"'"))
	s := d.guestSite().withVersion("4.2")
	sqlite := pushSqlite(t)
	var clients []*transactProcess
	for _, c := range []struct{ transport, point string }{{"rdma", "/mnt"}, {"tcp", "/mnt2"}} {
		s.mountInGuest(t, c.point, s.mountOptions(c.transport))
		g, err := sharedGuest(t).Open(t.Context(), fmt.Sprintf("exec guestwork transact %s/db %s %d 0s %s", c.point, c.transport, count, sqlite))
		require.NoError(t, err)
		t.Cleanup(g.Close)
		clients = append(clients, watchTransactor(t, c.transport, g, g))
	}
	in, out, _ := hostProgram(t, exec.Command(programPath("guestwork"), "transact", db, "host", fmt.Sprint(count), pause.String(), "sqlite3"))
	host := watchTransactor(t, "host", in, out)
	began := time.Now()
	for kill := 1; kill <= kills; kill++ {
		for _, c := range clients {
			c.awaitCount(count * kill / (kills + 1))
		}
		rests := host.pauseProcess()
		time.Sleep(rand.N(100 * time.Millisecond))
		d.proc.Kill()
		d.startProcess()
		start := time.Now()
		for _, c := range clients {
			c.awaitCount(c.doneCount() + 1)
		}
		t.Logf("kill %d: both clients have gone on after %.1f s; transactions: rdma %d, tcp %d, host %d",
			kill, time.Since(start).Seconds(), clients[0].doneCount(), clients[1].doneCount(), host.doneCount())
		if rests {
			host.goOn()
		}
	}
	for _, p := range append(clients, host) {
		assert.Equal(t, "failed 0 0", p.awaitLastLine(), p.name)
	}
	t.Logf("%d transactions in %.1f s", 3*count, time.Since(began).Seconds())
	each := fmt.Sprintf("%d|0|%d\n", count, count-1)
	want := fmt.Sprintf("ok\n%d\n%[1]d\nhost|%srdma|%[2]stcp|%[2]s", 3*count, each)
	assert.Equal(t, want, onHost(t, d.dir, "sqlite3 db '"+transact.Check+"'"))
	assert.Equal(t, want, mustInGuest(t, sqlite+" /mnt/db '"+transact.Check+"'"))
	unmountInGuest(t, "/mnt2")
	unmountInGuest(t, "/mnt")
	d.stopGracefully()
	assert.NotContains(t, d.stderr.String(), "level=WARN")
}

// library matches a library in the output of ldd.
var library = regexp.MustCompile(`(/\S+) \(0x`)

// pushSqlite copies the host's sqlite3 into the guest, and returns the command there.
func pushSqlite(t *testing.T) string { return pushProgram(t, sharedGuest(t), "sqlite3") }

// pushProgram copies a program of the host into a guest, with its libraries, and
// returns the command there.
func pushProgram(t *testing.T, g *Guest, name string) string {
	file, err := exec.LookPath(name)
	require.NoError(t, err)
	name = filepath.Base(name)
	dir, loader := "/push-"+name, ""
	_, status, err := g.Exec(t.Context(), "mkdir -p "+dir)
	require.NoError(t, err)
	require.Zero(t, status)
	for _, m := range append(library.FindAllStringSubmatch(onHost(t, "/", "ldd "+file), -1), []string{"", file}) {
		to := filepath.Join(dir, filepath.Base(m[1]))
		require.NoError(t, g.Push(t.Context(), m[1], to))
		if strings.HasPrefix(filepath.Base(m[1]), "ld-linux") {
			loader = to
		}
	}
	return fmt.Sprintf("%s --library-path %s %s/%s", loader, dir, dir, name)
}

// A transactProcess is transact.Run in another process.
type transactProcess struct {
	t    *testing.T
	name string
	in   io.Writer

	mu    sync.Mutex
	moved sync.Cond
	done  int // transactions
	rests bool
	said  string // the last line
	ended bool
}

func watchTransactor(t *testing.T, name string, in io.Writer, out io.Reader) *transactProcess {
	p := &transactProcess{t: t, name: name, in: in}
	p.moved.L = &p.mu
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.readLine(lines.Text())
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = true
		p.moved.Broadcast()
	}()
	return p
}

func (p *transactProcess) readLine(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = text
	switch _, err := fmt.Sscan(text, new(int)); {
	case err == nil:
		p.done++
	case text == transact.Resting:
		p.rests = true
	case strings.HasPrefix(text, "transaction "):
		p.t.Logf("%s: %s", p.name, text)
	}
	p.moved.Broadcast()
}

// transactionLimit is the time for a transaction, also with a kill in it.
const transactionLimit = 3 * time.Minute

// awaitState waits, with the lock, until is holds or the process has ended. It fails
// if the process stands still.
func (p *transactProcess) awaitState(is func() bool) {
	p.t.Helper()
	before, since := p.done, time.Now()
	tick := time.AfterFunc(transactionLimit, p.moved.Broadcast)
	defer tick.Stop()
	for !is() && !p.ended {
		if p.moved.Wait(); p.done > before {
			before, since = p.done, time.Now()
			tick.Reset(transactionLimit)
		}
		if time.Since(since) > transactionLimit {
			p.t.Fatalf("%s: no transaction for %v after %d; it has said %q", p.name, transactionLimit, p.done, p.said)
		}
	}
}

func (p *transactProcess) doneCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// awaitCount returns when n transactions have been made, or all.
func (p *transactProcess) awaitCount(n int) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.awaitState(func() bool { return p.done >= n })
}

// pauseProcess makes the process rest. It returns false if the process has made all its
// transactions.
func (p *transactProcess) pauseProcess() bool {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.rests = false
	_, _ = fmt.Fprintln(p.in, transact.Rest) // it may have ended
	p.awaitState(func() bool { return p.rests })
	return p.rests
}

func (p *transactProcess) goOn() {
	_, err := fmt.Fprintln(p.in, transact.Go)
	require.NoError(p.t, err)
}

// awaitLastLine waits for the end, and returns the last line.
func (p *transactProcess) awaitLastLine() string {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.awaitState(func() bool { return false })
	return p.said
}

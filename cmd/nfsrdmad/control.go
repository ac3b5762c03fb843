package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// defaultControl returns the default path of the control socket, or "" for an ordinary user
// without a runtime directory.
func defaultControl() string {
	if os.Geteuid() == 0 {
		return "/run/nfsrdmad.sock"
	}
	if d := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) {
		return filepath.Join(d, "nfsrdmad.sock")
	}
	return ""
}

// Timeouts of the daemon's HTTP servers. They have few clients, which are fast.
const (
	httpReadTimeout = 10 * time.Second
	httpIdleTimeout = 2 * time.Minute
)

// newHTTPServer returns a server for m. It logs net/http's messages about clients at debug
// level.
func newHTTPServer(m http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: m, ReadTimeout: httpReadTimeout, IdleTimeout: httpIdleTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// A controlSocket is the socket on which a daemon serves its status and accepts commands.
type controlSocket struct {
	path   string
	lock   *os.File
	server *http.Server
	done   chan struct{}
}

// errControlTaken reports that another daemon uses the socket.
var errControlTaken = errors.New("another nfsrdmad uses it")

// openControl creates the socket and serves on it until close. A live daemon holds the lock
// file of its socket; a socket whose lock is free is stale and is replaced.
func openControl(path string, p *runningDaemon, log *slog.Logger) (*controlSocket, error) {
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, controlError(path, cli.Cause(err))
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errControlTaken
		}
		return nil, controlError(path, err)
	}
	l, err := listenControl(path)
	if err != nil {
		lock.Close()
		return nil, controlError(path, err)
	}
	m := http.NewServeMux()
	answer := func(document func() any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { writeDocument(w, document()) }
	}
	m.HandleFunc("GET /status", answer(func() any { return p.reportSource().CollectStatus() }))
	m.HandleFunc("GET /clients", answer(func() any { return p.reportSource().CollectClients() }))
	m.HandleFunc("GET /clients/held", p.serveHeld)
	m.HandleFunc("GET /locks", p.serveHeld)
	m.HandleFunc("GET /trace", p.serveCallTrace)
	m.HandleFunc("POST /clients/expire", orderHandler(p.expireClient))
	m.HandleFunc("POST /clients/end-grace", orderHandler(p.endGracePeriod))
	m.HandleFunc("GET /exports", answer(func() any { return p.reportSource().CollectExportList() }))
	m.HandleFunc("POST /exports/reload", orderHandler(p.handleExportsReload))
	m.HandleFunc("GET /log", p.serveLevels)
	m.HandleFunc("POST /log", orderHandler(p.log.handleLevel))
	m.HandleFunc("POST /exports/temporary", orderHandler(p.handleTemporary))
	m.HandleFunc("POST /reload", orderHandler(p.handleReload))
	handleProfiles(m)
	c := &controlSocket{path: path, lock: lock, server: newHTTPServer(p.whileWaiting(p.waitingControl(), m), log), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		_ = c.server.Serve(l) // until close
	}()
	return c, nil
}

// writeDocument writes a response.
func writeDocument(w http.ResponseWriter, document any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document) // fails if the client has disconnected
}

func (p *runningDaemon) serveLevels(w http.ResponseWriter, _ *http.Request) {
	writeDocument(w, p.log.describeLevels())
}

// listenControl listens on a socket that at no time anyone except its owner can use.
func listenControl(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return nil, errors.New("a file of that name is not a socket")
		}
		if err := os.Remove(path); err != nil {
			return nil, cli.Cause(err)
		}
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".nfsrdmad") // only the owner may enter it
	if err != nil {
		return nil, cli.Cause(err)
	}
	defer os.RemoveAll(dir)
	inside := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: inside, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(inside, 0o600); err == nil {
		err = os.Rename(inside, path)
	}
	if err != nil {
		l.Close()
		return nil, cli.Cause(err)
	}
	return l, nil
}

// close removes the socket and stops serving. It does nothing if c is nil.
func (c *controlSocket) close() {
	if c == nil {
		return
	}
	_ = os.Remove(c.path) // while the lock is still held
	_ = c.server.Close()
	<-c.done
	c.lock.Close()
}

func controlError(path string, cause error) error {
	return fmt.Errorf("cannot create the control socket %s: %w; name another with --control, or turn it off with --control \"\"", path, cause)
}

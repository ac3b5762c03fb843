package tickets

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
)

// A Config configures a Helper.
type Config struct {
	// Program is the path of nfsrdma-gss. All users must be able to run it.
	Program string

	// Keytab is the file with this machine's keys, whose tickets root uses.
	Keytab string

	// Own is for a process that makes calls only for the user who runs it. Its contexts
	// use Cache, usually $KRB5CCNAME, or if that is empty, the caches that are found;
	// root's use the keytab if these have no ticket.
	Own   bool
	Cache string

	// Host is this machine's name with its domain.
	Host string

	// Enctypes are the encryption types for contexts, the preferred first; nil means all
	// that krb5 supports.
	Enctypes []krb5.Enctype

	// Env is the helpers' environment, as in os.Environ. It must not name a credential
	// cache, because that would not be the user's.
	Env []string
}

// A Helper starts nfsrdma-gss for users. It is safe for concurrent use.
type Helper struct {
	cfg     Config
	program *os.File      // nil: it cannot be opened
	limit   time.Duration // helperTimeout
	running chan struct{} // an element for each helper

	mu    sync.Mutex
	turns map[uint32]*userTurn // for users whose contexts are being established
}

// An userTurn limits a user to one helper at a time.
type userTurn struct {
	held  chan struct{} // capacity 1
	users int           // holders and waiters
}

// NewHelper returns a Helper. It opens the program, so that later attempts start it
// without its path: a mount, possibly the one that waits for the context, may cover the
// path by then. This process would hang, because Go holds a processor while it waits for
// a program to start.
func NewHelper(cfg Config) *Helper {
	if cfg.Enctypes == nil {
		cfg.Enctypes = []krb5.Enctype{krb5.AES256SHA384, krb5.AES128SHA256, krb5.AES256SHA1, krb5.AES128SHA1}
	}
	h := &Helper{cfg: cfg, limit: helperTimeout, running: make(chan struct{}, maxHelpers), turns: make(map[uint32]*userTurn)}
	if fd, err := unix.Open(cfg.Program, unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
		h.program = os.NewFile(uintptr(fd), cfg.Program)
	}
	return h
}

// newCommand returns the command that starts the program.
func (h *Helper) newCommand() *exec.Cmd {
	cmd := exec.Command(h.cfg.Program)
	if h.program != nil {
		cmd.Path, cmd.ExtraFiles = "/proc/self/fd/3", []*os.File{h.program} // the first extra file has descriptor 3
	}
	return cmd
}

// Begin starts establishing a context with service, such as nfs@server.example, bound to
// a connection unless bindings are nil. It waits for the user's other attempts. Its
// errors, and the Initiator's, have type *Error unless ctx has ended.
func (h *Helper) Begin(ctx context.Context, user User, service string, bindings []byte) (gss.Initiator, error) {
	leave, err := h.acquireTurn(ctx, user.UID)
	if err != nil {
		return nil, err
	}
	a := &helperAttempt{helper: h, user: user, release: leave}
	if err := a.startHelper(); err != nil {
		a.Close()
		return nil, err
	}
	if err := a.sendMessage(ctx, h.newRequest(user, service, bindings)); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// acquireTurn waits for the user's turn, and for a slot among all helpers.
func (h *Helper) acquireTurn(ctx context.Context, uid uint32) (leave func(), err error) {
	h.mu.Lock()
	t := h.turns[uid]
	if t == nil {
		t = &userTurn{held: make(chan struct{}, 1)}
		h.turns[uid] = t
	}
	t.users++
	h.mu.Unlock()
	forget := func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(h.turns, uid)
		}
	}
	select {
	case t.held <- struct{}{}:
	case <-ctx.Done():
		forget()
		return nil, context.Cause(ctx)
	}
	select {
	case h.running <- struct{}{}:
	case <-ctx.Done():
		<-t.held
		forget()
		return nil, context.Cause(ctx)
	}
	return func() {
		<-h.running
		<-t.held
		forget()
	}, nil
}

// newRequest returns the request for a context.
func (h *Helper) newRequest(user User, service string, bindings []byte) *wire.Request {
	q := &wire.Request{Service: service, Bindings: bindings}
	for _, e := range h.cfg.Enctypes {
		q.Enctypes = append(q.Enctypes, uint32(e))
	}
	if user.UID == 0 {
		q.Keytab, q.Principals = h.cfg.Keytab, machinePrincipals(h.cfg.Host)
	}
	switch own := h.cfg.Own && int(user.UID) == os.Geteuid(); {
	case own && h.cfg.Cache != "":
		q.Caches = []string{h.cfg.Cache}
	case own || user.UID != 0:
		q.Caches = findCaches(user.UID, cacheDirectories(user.UID))
	}
	return q
}

// machinePrincipals returns a machine's names in the same order as Linux's gssd(8), and
// then "" for the keytab's first.
func machinePrincipals(host string) []string {
	short, _, _ := strings.Cut(host, ".")
	return []string{strings.ToUpper(short) + "$", "root/" + host, "nfs/" + host, "host/" + host, ""}
}

// Env returns the part of this process's environment that helpers may have: the location
// of the Kerberos configuration.
func Env() []string {
	return slices.DeleteFunc(os.Environ(), func(s string) bool {
		return !strings.HasPrefix(s, "KRB5_CONFIG=")
	})
}

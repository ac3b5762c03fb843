package discover

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"time"
)

// Attend registers with a server for restart notices. It calls restarted for each
// restart that it detects, from a notice or because a reply has another boot
// number. If the server does not respond, Attend repeats the registration
// periodically. Attend returns when ctx is done, with the error that closed the
// port, or nil.
//
// A restart is only a hint: anyone who observes the messages can forge a notice.
func (p *Port) Attend(ctx context.Context, server netip.Addr, restarted func()) error {
	a := registration{Port: p, server: server, restarted: restarted, token: rand.Uint64()}
	for ctx.Err() == nil {
		err := a.register(ctx)
		if err != nil && !errors.Is(err, ErrNoAnswer) && p.ud.Err() != nil {
			return err
		}
		a.awaitNotice(ctx)
	}
	a.unregister()
	return nil
}

// A registration keeps a client registered for notices from one server.
type registration struct {
	*Port
	server    netip.Addr
	restarted func()
	token     uint64
	boot      uint64 // the last known boot number
	known     bool
}

// register sends a registration, and waits as long as a reply can take. If a notice
// arrives in that time, it sends another registration at once, because the
// registration confirms the notice.
func (a *registration) register(ctx context.Context) error {
	for {
		noticed := false
		try, cancel := context.WithTimeoutCause(ctx, registerTime, ErrNoAnswer)
		in, err := a.call(try, a.server, kindRegister, registerBody{Token: a.token}, func(in *serverMessage) {
			if a.isNewNotice(in) {
				noticed = true
				cancel()
			}
		})
		cancel()
		switch {
		case err == nil:
			a.recordBoot(in.Boot)
			return nil
		case !noticed || ctx.Err() != nil:
			return err
		}
	}
}

// awaitNotice waits for a notice, or until registration must be renewed.
func (a *registration) awaitNotice(ctx context.Context) {
	t := time.NewTimer(renewTime/2 + rand.N(renewTime/2))
	defer t.Stop()
	for {
		select {
		case in := <-a.in:
			if a.isNewNotice(&in) {
				return // the registration confirms the notice
			}
		case <-t.C:
			return
		case <-a.ud.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// isNewNotice reports whether a message is a notice with a new boot number.
func (a *registration) isNewNotice(in *serverMessage) bool {
	if in.Kind != kindNotice || in.from != a.server {
		return false
	}
	n, err := parseNotice(&in.body)
	return err == nil && n.Token == a.token && a.recordBoot(in.Boot)
}

// recordBoot records a boot number, and reports whether it differs from the last.
func (a *registration) recordBoot(boot uint64) bool {
	if a.known && a.boot == boot {
		return false
	}
	if a.known {
		a.restarted()
	}
	a.boot, a.known = boot, true
	return true
}

// unregister removes the registration. If the server misses the message, the
// registration expires.
func (a *registration) unregister() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	_, _ = a.call(ctx, a.server, kindRegister, registerBody{Token: a.token, Leave: true}, nil)
}

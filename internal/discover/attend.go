package discover

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"time"
)

// Attend asks a server for notices of restarts. It calls restarted for each
// restart that it learns of, by a notice or because the server answers from
// another boot. A server that does not answer is asked again now and then.
// Attend returns when ctx ends, with the error that ended the port, or nil.
//
// A restart is only a hint: any observer of the messages can forge a notice.
func (p *Port) Attend(ctx context.Context, server netip.Addr, restarted func()) error {
	a := attendant{Port: p, server: server, restarted: restarted, token: rand.Uint64()}
	for ctx.Err() == nil {
		err := a.register(ctx)
		if err != nil && !errors.Is(err, ErrNoAnswer) && p.ud.Err() != nil {
			return err
		}
		a.listen(ctx)
	}
	a.leave()
	return nil
}

// An attendant waits for notices of one server.
type attendant struct {
	*Port
	server    netip.Addr
	restarted func()
	token     uint64
	boot      uint64 // the last known boot
	known     bool
}

// register asks for notices of restarts, for as long as an answer can take. If a notice
// comes meanwhile, it asks again at once, because the registration confirms the notice.
func (a *attendant) register(ctx context.Context) error {
	for {
		noticed := false
		try, cancel := context.WithTimeoutCause(ctx, registerTime, ErrNoAnswer)
		in, err := a.ask(try, a.server, KindRegister, Register{Token: a.token}, func(in *incoming) {
			if a.notice(in) {
				noticed = true
				cancel()
			}
		})
		cancel()
		switch {
		case err == nil:
			a.heard(in.Boot)
			return nil
		case !noticed || ctx.Err() != nil:
			return err
		}
	}
}

// listen waits for a notice, or until registration must be renewed.
func (a *attendant) listen(ctx context.Context) {
	t := time.NewTimer(renewTime/2 + rand.N(renewTime/2))
	defer t.Stop()
	for {
		select {
		case in := <-a.in:
			if a.notice(&in) {
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

// notice reports whether a message is a notice of a new boot.
func (a *attendant) notice(in *incoming) bool {
	if in.Kind != KindNotice || in.from != a.server {
		return false
	}
	n, err := parseNotice(&in.body)
	return err == nil && n.Token == a.token && a.heard(in.Boot)
}

// heard notes a boot, and reports whether it differs from the last.
func (a *attendant) heard(boot uint64) bool {
	if a.known && a.boot == boot {
		return false
	}
	if a.known {
		a.restarted()
	}
	a.boot, a.known = boot, true
	return true
}

// leave ends the registration. A server that misses the message forgets the
// client in time.
func (a *attendant) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	_, _ = a.ask(ctx, a.server, KindRegister, Register{Token: a.token, Leave: true}, nil)
}

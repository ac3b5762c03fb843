package krb5

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

// A Config configures an Acceptor.
type Config struct {
	// Keytab is the path of a keytab file. Only its nfs/ keys are used.
	Keytab string

	// Now is the clock.
	Now func() time.Time
}

// An Acceptor accepts contexts with a keytab's keys. It implements gss.Acceptor. Accept's
// errors have an error code from RFC 4120, Section 7.5.9, as Minor, and a KRB-ERROR as
// Token unless the initiator's token is not a Kerberos token.
type Acceptor struct {
	now     func() time.Time
	keys    *serviceKeys
	replays *replayCache
}

var _ gss.Acceptor = (*Acceptor)(nil)

// NewAcceptor reads the keytab. The error describes what the keytab lacks.
func NewAcceptor(ctx context.Context, cfg Config) (*Acceptor, error) {
	a := &Acceptor{now: cfg.Now, keys: newServiceKeys(cfg.Keytab, cfg.Now), replays: newReplayCache(maxAuthenticators, maxPerPrincipal)}
	if err := a.keys.reload(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// Reload reads the keytab again. After an error the acceptor keeps the keys that it has.
// Accept also reads the keytab again if no key opens a ticket: once a second at most,
// unless the file has changed.
func (a *Acceptor) Reload(ctx context.Context) error { return a.keys.reload(ctx) }

// Realms returns the keys' realms without duplicates.
func (a *Acceptor) Realms() []string { return a.keys.listRealms() }

// Accept accepts an AP-REQ and returns an AP-REP that asserts a new subkey. If the
// initiator does not request mutual authentication, as Debian 13's rpc.gssd, the reply
// token is empty. Accept waits only for the keytab.
func (a *Acceptor) Accept(ctx context.Context, token, bindings []byte) (gss.Accepted, error) {
	message, err := unframeToken(token)
	if err != nil {
		return gss.Accepted{}, err
	}
	e := exchange{acceptor: a, now: a.now(), bindings: bindings}
	accepted, err := e.acceptRequest(ctx, message)
	if err != nil {
		return gss.Accepted{}, e.statusError(err)
	}
	return accepted, nil
}

// An exchange is the state of one Accept.
type exchange struct {
	acceptor *Acceptor
	now      time.Time
	bindings []byte
	request  apReq
	client   gss.Principal // named by the ticket, once that is decrypted
	mutual   bool          // the initiator wants an AP-REP
}

// A rejection is a reason why an exchange fails.
type rejection struct {
	major gss.Major
	code  errorCode
	text  string
}

func (r *rejection) Error() string { return r.text }

func rejectf(code errorCode, format string, args ...any) error {
	return &rejection{gss.Failure, code, fmt.Sprintf(format, args...)}
}

// statusError is the only function that converts an error into a status and a KRB-ERROR.
func (e *exchange) statusError(err error) error {
	major, code := gss.DefectiveToken, codeGeneric
	var r *rejection
	var k *keyError
	var p *protocolError
	switch {
	case errors.As(err, &r):
		major, code = r.major, r.code
	case errors.As(err, &k):
		major, code = gss.NoCred, k.code
	case errors.As(err, &p):
		code = p.code
	}
	if len(e.client.Name) > 0 {
		err = fmt.Errorf("%s: %w", principalText(e.client), err)
	}
	realm, name := e.request.realm, e.request.service
	if len(name) == 0 {
		own := e.acceptor.keys.firstPrincipal()
		realm, name = own.Realm, own.Name
	}
	answer := frameToken(tokenError, buildKRBError(code, e.now, realm, name))
	return &gss.Error{Major: major, Minor: uint32(code), Token: answer, Err: err}
}

func (e *exchange) acceptRequest(ctx context.Context, message []byte) (gss.Accepted, error) {
	if id := binary.BigEndian.Uint16(message); id != tokenAPReq {
		// RFC 4121, Section 4.1, wants GSS_S_CONTINUE_NEEDED here. A failure is
		// safer: no context is left waiting for a token that never comes.
		return gss.Accepted{}, &rejection{gss.DefectiveToken, codeMessageType, fmt.Sprintf("the first token has the identifier %#04x, which is not an AP-REQ's", id)}
	}
	var err error
	if e.request, err = parseAPReq(message[2:]); err != nil {
		return gss.Accepted{}, err
	}
	server, ticket, err := e.openTicket(ctx)
	if err != nil {
		return gss.Accepted{}, err
	}
	e.client = ticket.client
	if err := e.checkTicket(server, ticket); err != nil {
		return gss.Accepted{}, err
	}
	auth, err := e.openAuthenticator(ticket)
	if err != nil {
		return gss.Accepted{}, err
	}
	if err := e.checkBindings(auth); err != nil {
		return gss.Accepted{}, err
	}
	if !e.acceptor.replays.addUnseen(e.request.authenticator.cipher, ticket.client, e.now) {
		return gss.Accepted{}, &rejection{gss.DuplicateToken, codeRepeat, "the token was sent before: it is a replay, or the client's retransmission"}
	}
	if !e.mutual {
		return establishOneWay(ticket, auth)
	}
	return establishMutual(ticket, auth)
}

// openTicket decrypts the ticket. It returns the key's principal.
func (e *exchange) openTicket(ctx context.Context) (server gss.Principal, ticket ticketPart, err error) {
	r := e.request
	switch {
	case r.options&optionUseSessionKey != 0:
		return server, ticket, rejectf(codeNoKey, "the ticket is encrypted with a session key of this server (user-to-user), which has none")
	case r.service[0] != service:
		return server, ticket, &rejection{gss.NoCred, codeNotUs, fmt.Sprintf("a client has a ticket for %s: only tickets for %s/ are accepted", serviceText(r.service), service)}
	}
	if profiles[r.ticket.enctype] == nil {
		return server, ticket, rejectf(codeEnctype, "a client's ticket for %s uses %v: create an aes256-cts key for the service at the KDC, and a new keytab",
			serviceText(r.service), r.ticket.enctype)
	}
	server, part, err := e.acceptor.keys.openTicket(ctx, r)
	if err != nil {
		return server, ticket, err
	}
	if ticket, err = parseTicketPart(part); err != nil && !errors.Is(err, errDER) {
		err = rejectf(codeEnctype, "the ticket's session key: %v", err)
	}
	return server, ticket, err
}

// checkTicket checks what the KDC asserts about the client (RFC 4120, Section 3.2.3).
func (e *exchange) checkTicket(server gss.Principal, t ticketPart) error {
	switch {
	case t.flags&flagInvalid != 0:
		return rejectf(codeNotYet, "the ticket is postdated, and was not validated")
	case t.start.After(e.now.Add(Skew)):
		return rejectf(codeNotYet, "the ticket is valid from %s on; it is %s", formatTime(t.start), formatTime(e.now))
	case t.end.Before(e.now.Add(-Skew)):
		return &rejection{gss.CredentialsExpired, codeExpired, fmt.Sprintf("the ticket expired at %s; it is %s: the client must run kinit", formatTime(t.end), formatTime(e.now))}
	case t.client.Realm != server.Realm && t.flags&flagTransitedChecked == 0:
		return rejectf(codePath, "the KDC of %s has not checked the realms between the client's and its own", escapeName(server.Realm))
	case !t.ignorable:
		return rejectf(codePolicy, "the ticket has restrictions that this server does not know")
	}
	return nil
}

func formatTime(t time.Time) string { return t.UTC().Format(time.DateTime + "Z") }

// openAuthenticator decrypts the authenticator, and checks all but the bindings.
func (e *exchange) openAuthenticator(t ticketPart) (a authenticator, err error) {
	sealed := e.request.authenticator
	if sealed.enctype != t.key.Enctype {
		return a, rejectf(codeEnctype, "the authenticator uses %v, and the session key %v", sealed.enctype, t.key.Enctype)
	}
	plain, err := t.key.decrypt(usageAuthenticator, sealed.cipher)
	if err != nil {
		return a, &rejection{gss.BadMIC, codeIntegrity, "the authenticator does not match the ticket: it is forged"}
	}
	if a, err = parseAuthenticator(plain); err != nil {
		if p := (*protocolError)(nil); !errors.Is(err, errDER) && !errors.As(err, &p) {
			err = rejectf(codeEnctype, "the subkey: %v", err)
		}
		return a, err
	}
	switch {
	case a.client.Realm != t.client.Realm || !slices.Equal(a.client.Name, t.client.Name):
		return a, rejectf(codeMatch, "the authenticator names %s", principalText(a.client))
	case a.ctime.Sub(e.now).Abs() > Skew:
		return a, rejectf(codeSkew, "the clocks of client and server differ by %s (limit %d)", formatMinutes(a.ctime.Sub(e.now).Abs()), int(Skew.Minutes()))
	case !a.ignorable:
		return a, rejectf(codePolicy, "the authenticator has restrictions that this server does not know")
	}
	return a, nil
}

// formatMinutes rounds up, so that no difference over the limit reads like the limit.
func formatMinutes(d time.Duration) string {
	n := d / time.Minute
	if d%time.Minute > 0 {
		n++
	}
	return fmt.Sprintf("%d minutes", int64(n))
}

// initiatorKey returns the key that the initiator chose (RFC 4121, Section 2).
func initiatorKey(t ticketPart, a authenticator) Key {
	if a.subkey.Enctype != 0 {
		return a.subkey
	}
	return t.key
}

// establishOneWay creates the acceptor's end of a context without an AP-REP, with the
// initiator's subkey. Its tokens start at the initiator's sequence number, as MIT's and
// Heimdal's do. An AP-REQ that is replayed after a restart creates a second context with
// the same key, but with another handle, which no recorded call has. With the session
// key, all contexts from one ticket would share a key, and a call body from one would
// verify in another.
func establishOneWay(t ticketPart, a authenticator) (gss.Accepted, error) {
	if a.subkey.Enctype == 0 {
		return gss.Accepted{}, rejectf(codePolicy, "the token requests no mutual authentication, and has no subkey: without both, all contexts from its ticket would share one key")
	}
	c, err := NewContext(Establishment{Key: a.subkey, Acceptor: true, Sequence: uint64(a.sequence), Expires: t.end})
	if err != nil {
		return gss.Accepted{}, err
	}
	return gss.Accepted{Context: c, Principal: t.client}, nil
}

// establishMutual creates the acceptor's end of the context, with a subkey of the same
// type as the initiator's key, and the AP-REP.
func establishMutual(t ticketPart, a authenticator) (gss.Accepted, error) {
	enctype := initiatorKey(t, a).Enctype
	subkey := Key{enctype, make([]byte, profiles[enctype].keySize)}
	rand.Read(subkey.Value)
	var number [4]byte
	rand.Read(number[:])
	sequence := binary.BigEndian.Uint32(number[:]) >> 2 // some initiators read a signed number
	c, err := NewContext(Establishment{Key: subkey, AcceptorSubkey: true, Acceptor: true, Sequence: uint64(sequence), Expires: t.end})
	if err != nil {
		return gss.Accepted{}, err
	}
	return gss.Accepted{Context: c, Token: frameToken(tokenAPRep, buildAPRep(t.key, a, subkey, sequence)), Principal: t.client}, nil
}

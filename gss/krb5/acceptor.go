package krb5

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/gss"
)

// A Config configures an Acceptor.
type Config struct {
	// Keytab is the path of a keytab file. Only its nfs/ keys are used.
	Keytab string

	// Now is the clock.
	Now func() time.Time
}

// An Acceptor accepts contexts with the keys of a keytab. It implements
// gss.Acceptor. Errors of Accept have the error code of RFC 4120, Section 7.5.9, as
// Minor, and a KRB-ERROR as Token unless the initiator's token is not Kerberos'.
type Acceptor struct {
	now  func() time.Time
	keys *serviceKeys
	seen *authenticators
}

var _ gss.Acceptor = (*Acceptor)(nil)

// NewAcceptor reads the keytab. The error says, for people to read, what the
// keytab lacks.
func NewAcceptor(ctx context.Context, cfg Config) (*Acceptor, error) {
	a := &Acceptor{now: cfg.Now, keys: newServiceKeys(cfg.Keytab, cfg.Now), seen: newAuthenticators(maxAuthenticators, maxOfPrincipal)}
	if err := a.keys.reload(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// Reload reads the keytab again. After an error the acceptor goes on with the
// keys that it has. Accept also reads the keytab again if no key opens a ticket: once
// a second at most, unless the file has changed.
func (a *Acceptor) Reload(ctx context.Context) error { return a.keys.reload(ctx) }

// Realms returns the realms of the keys, each once.
func (a *Acceptor) Realms() []string { return a.keys.realms() }

// Accept takes an AP-REQ and answers with an AP-REP that asserts a new subkey. If the
// initiator does not ask for mutual authentication, as rpc.gssd of Debian 13, the
// answer is empty. Accept waits for nothing but the keytab.
func (a *Acceptor) Accept(ctx context.Context, token, bindings []byte) (gss.Accepted, error) {
	message, err := unframe(token)
	if err != nil {
		return gss.Accepted{}, err
	}
	e := exchange{acceptor: a, now: a.now(), bindings: bindings}
	accepted, err := e.accept(ctx, message)
	if err != nil {
		return gss.Accepted{}, e.failed(err)
	}
	return accepted, nil
}

// An exchange is the state of one Accept.
type exchange struct {
	acceptor *Acceptor
	now      time.Time
	bindings []byte
	request  apReq
	client   gss.Principal // of the ticket, once that is open
	mutual   bool          // the initiator wants an AP-REP
}

// A refusal is a reason why an exchange fails.
type refusal struct {
	major gss.Major
	code  errorCode
	text  string
}

func (r *refusal) Error() string { return r.text }

func refuse(code errorCode, format string, args ...any) error {
	return &refusal{gss.Failure, code, fmt.Sprintf(format, args...)}
}

// failed is the one place that turns an error into a status and a KRB-ERROR.
func (e *exchange) failed(err error) error {
	major, code := gss.DefectiveToken, codeGeneric
	var r *refusal
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
		own := e.acceptor.keys.first()
		realm, name = own.Realm, own.Name
	}
	answer := frame(tokenError, krbError(code, e.now, realm, name))
	return &gss.Error{Major: major, Minor: uint32(code), Token: answer, Err: err}
}

func (e *exchange) accept(ctx context.Context, message []byte) (gss.Accepted, error) {
	if id := binary.BigEndian.Uint16(message); id != tokenAPReq {
		// RFC 4121, Section 4.1, wants GSS_S_CONTINUE_NEEDED here. A failure is
		// safer: no context is left waiting for a token that never comes.
		return gss.Accepted{}, &refusal{gss.DefectiveToken, codeMessageType, fmt.Sprintf("the first token has the identifier %#04x, not that of an AP-REQ", id)}
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
	if !e.acceptor.seen.add(e.request.authenticator.cipher, ticket.client, e.now) {
		return gss.Accepted{}, &refusal{gss.DuplicateToken, codeRepeat, "the token was sent before: it is a replay, or a repeated try of the client"}
	}
	if !e.mutual {
		return establishOneWay(ticket, auth)
	}
	return establish(ticket, auth)
}

// openTicket decrypts the ticket. The returned principal is that of the key.
func (e *exchange) openTicket(ctx context.Context) (server gss.Principal, ticket ticketPart, err error) {
	r := e.request
	switch {
	case r.options&optionUseSessionKey != 0:
		return server, ticket, refuse(codeNoKey, "the ticket is encrypted with a session key of this server (user-to-user), which has none")
	case r.service[0] != service:
		return server, ticket, &refusal{gss.NoCred, codeNotUs, fmt.Sprintf("a client has a ticket for %s: only tickets for %s/ are accepted", serviceText(r.service), service)}
	}
	if profiles[r.ticket.enctype] == nil {
		return server, ticket, refuse(codeEnctype, "a client's ticket for %s is of %v: give the service a key of aes256-cts at the KDC, and a new keytab",
			serviceText(r.service), r.ticket.enctype)
	}
	server, part, err := e.acceptor.keys.open(ctx, r)
	if err != nil {
		return server, ticket, err
	}
	if ticket, err = parseTicketPart(part); err != nil && !errors.Is(err, errDER) {
		err = refuse(codeEnctype, "the session key of the ticket: %v", err)
	}
	return server, ticket, err
}

// checkTicket checks what the KDC says of the client (RFC 4120, Section 3.2.3).
func (e *exchange) checkTicket(server gss.Principal, t ticketPart) error {
	switch {
	case t.flags&flagInvalid != 0:
		return refuse(codeNotYet, "the ticket is postdated, and was not validated")
	case t.start.After(e.now.Add(Skew)):
		return refuse(codeNotYet, "the ticket is valid from %s on; it is %s", clock(t.start), clock(e.now))
	case t.end.Before(e.now.Add(-Skew)):
		return &refusal{gss.CredentialsExpired, codeExpired, fmt.Sprintf("the ticket ended at %s; it is %s: the client must run kinit", clock(t.end), clock(e.now))}
	case t.client.Realm != server.Realm && t.flags&flagTransitedChecked == 0:
		return refuse(codePath, "the KDC of %s has not checked the realms between the client's and its own", escape(server.Realm))
	case !t.ignorable:
		return refuse(codePolicy, "the ticket has restrictions that this server does not know")
	}
	return nil
}

func clock(t time.Time) string { return t.UTC().Format(time.DateTime + "Z") }

// openAuthenticator decrypts the authenticator, and checks it but for the
// bindings.
func (e *exchange) openAuthenticator(t ticketPart) (a authenticator, err error) {
	sealed := e.request.authenticator
	if sealed.enctype != t.key.Enctype {
		return a, refuse(codeEnctype, "the authenticator is of %v, and the session key is of %v", sealed.enctype, t.key.Enctype)
	}
	plain, err := t.key.decrypt(usageAuthenticator, sealed.cipher)
	if err != nil {
		return a, &refusal{gss.BadMIC, codeIntegrity, "the authenticator does not fit the ticket: it is forged"}
	}
	if a, err = parseAuthenticator(plain); err != nil {
		if p := (*protocolError)(nil); !errors.Is(err, errDER) && !errors.As(err, &p) {
			err = refuse(codeEnctype, "the subkey: %v", err)
		}
		return a, err
	}
	switch {
	case a.client.Realm != t.client.Realm || !slices.Equal(a.client.Name, t.client.Name):
		return a, refuse(codeMatch, "the authenticator is that of %s", principalText(a.client))
	case a.ctime.Sub(e.now).Abs() > Skew:
		return a, refuse(codeSkew, "the clocks of client and server differ by %s (limit %d)", minutes(a.ctime.Sub(e.now).Abs()), int(Skew.Minutes()))
	case !a.ignorable:
		return a, refuse(codePolicy, "the authenticator has restrictions that this server does not know")
	}
	return a, nil
}

// minutes rounds up, so that no difference over the limit reads like the limit.
func minutes(d time.Duration) string {
	n := d / time.Minute
	if d%time.Minute > 0 {
		n++
	}
	return fmt.Sprintf("%d minutes", int64(n))
}

// initiatorKey returns the key that the initiator has chosen (RFC 4121, Section 2).
func initiatorKey(t ticketPart, a authenticator) Key {
	if a.subkey.Enctype != 0 {
		return a.subkey
	}
	return t.key
}

// establishOneWay makes the acceptor's end of a context without an AP-REP, by the
// initiator's subkey. Its tokens begin with the initiator's number, as MIT's and Heimdal's.
// An AP-REQ that is sent again after a restart makes a second context of the same key, but
// of another handle, which no call that was recorded has. By the session key, all contexts
// of a ticket would have one key, and the body of one's call would pass in another's.
func establishOneWay(t ticketPart, a authenticator) (gss.Accepted, error) {
	if a.subkey.Enctype == 0 {
		return gss.Accepted{}, refuse(codePolicy, "the token asks for no answer, and brings no subkey: without both, all contexts of its ticket would have one key")
	}
	c, err := NewContext(Establishment{Key: a.subkey, Acceptor: true, Sequence: uint64(a.sequence), Expires: t.end})
	if err != nil {
		return gss.Accepted{}, err
	}
	return gss.Accepted{Context: c, Principal: t.client}, nil
}

// establish makes the acceptor's end of the context, with a subkey of the type of
// the initiator's key, and the AP-REP.
func establish(t ticketPart, a authenticator) (gss.Accepted, error) {
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
	return gss.Accepted{Context: c, Token: frame(tokenAPRep, apRep(t.key, a, subkey, sequence)), Principal: t.client}, nil
}

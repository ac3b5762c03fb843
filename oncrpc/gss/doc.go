// Package gss has the GSS-API types (RFC 2743) that a security mechanism and its users
// share: a Context protects messages, an Acceptor creates contexts from initiators'
// tokens, and an Error reports a failure.
//
//	initiator's token ─▶ Acceptor ─▶ answer, Context, principal
//
//	                 ┌ MIC ───── VerifyMIC ┐
//	message ─▶ Context                     Context ─▶ message
//	                 └ Wrap ──────── Unwrap ┘
//
// It must not know any mechanism, nor RPC.
package gss

// Package authority tests the worker over an embedded server in virtual time: claims, a lost
// worker, takeover by proof, hand-over, and fences that grow. The gateway in these tests is only
// what an authority sees of one: a key, and requests.
package authority

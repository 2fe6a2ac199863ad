// Package httpx holds what destinations that send HTTP requests have in common:
// the URL of an endpoint and which parts of it may be shown, what a status or a
// missing answer means, and how an answer is quoted without secrets. It sends
// nothing.
package httpx

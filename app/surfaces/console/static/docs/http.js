// The page /docs: Swagger UI over /openapi.json, which sends the key with each trial.

import { load } from "./key.js";

load("/openapi.json", (spec, key) => {
  SwaggerUIBundle({
    spec,
    dom_id: "#description",
    deepLinking: true,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    requestInterceptor(request) {
      if (key) request.headers.Authorization = `Bearer ${key}`;
      return request;
    },
  });
});
